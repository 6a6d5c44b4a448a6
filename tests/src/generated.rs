//! Files that are equal to the code. `UPDATE=1` writes them.

use std::path::Path;
use std::{env, fs};

/// Holds a page of `docs/reference` to the text that the code makes.
pub fn assert_page_is(name: &str, expected: &str) {
    assert_file_is(&Path::new("docs/reference").join(name), expected);
}

/// Holds a file, named from the root, to the text that the code makes.
pub fn assert_file_is(name: &Path, expected: &str) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let path = root.join(name);
    if env::var_os("UPDATE").is_some_and(|value| value == "1") {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, expected).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    let name = name.display();
    assert_eq!(written, expected, "{name} is not what the code says: run with UPDATE=1");
}
