//! A new migration makes this crate new.

fn main() {
    println!("cargo:rerun-if-changed=../migrations/main");
}
