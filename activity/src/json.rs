//! A small JSON writer. Fields keep the order of the calls, so equal activity gives equal bytes
//! whatever features serde_json has.

use std::fmt::Display;
use std::io::Write;

/// Text always fits into memory, so a write cannot fail.
const WRITTEN: &str = "memory takes any text";

/// A JSON object that is being written.
pub(super) struct ObjectWriter<'a> {
    out: &'a mut Vec<u8>,
    empty: bool,
}

/// Writes an object.
pub(super) fn write_object(out: &mut Vec<u8>, fields: impl FnOnce(&mut ObjectWriter<'_>)) {
    out.push(b'{');
    fields(&mut ObjectWriter { out, empty: true });
    out.push(b'}');
}

impl ObjectWriter<'_> {
    /// A text of any kind.
    pub(super) fn text(&mut self, name: &str, value: &str) -> &mut Self {
        write_text(self.write_name(name), value);
        self
    }

    /// A text that needs no escapes: an id or a time.
    pub(super) fn plain_text(&mut self, name: &str, value: impl Display) -> &mut Self {
        write!(self.write_name(name), "\"{value}\"").expect(WRITTEN);
        self
    }

    /// A number, `true`, `false` or `null`.
    pub(super) fn bare_value(&mut self, name: &str, value: impl Display) -> &mut Self {
        write!(self.write_name(name), "{value}").expect(WRITTEN);
        self
    }

    pub(super) fn object(
        &mut self,
        name: &str,
        fields: impl FnOnce(&mut ObjectWriter<'_>),
    ) -> &mut Self {
        write_object(self.write_name(name), fields);
        self
    }

    pub(super) fn objects<T>(
        &mut self,
        name: &str,
        items: impl IntoIterator<Item = T>,
        fields: impl Fn(&mut ObjectWriter<'_>, T),
    ) -> &mut Self {
        write_list(self.write_name(name), items, |out, item| {
            write_object(out, |one| fields(one, item));
        });
        self
    }

    pub(super) fn texts(&mut self, name: &str, items: &[&str]) -> &mut Self {
        write_list(self.write_name(name), items, |out, item| write_text(out, item));
        self
    }

    fn write_name(&mut self, name: &str) -> &mut Vec<u8> {
        if !std::mem::replace(&mut self.empty, false) {
            self.out.push(b',');
        }
        self.out.push(b'"');
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b"\":");
        self.out
    }
}

fn write_text(out: &mut Vec<u8>, value: &str) {
    serde_json::to_writer(out, value).expect(WRITTEN);
}

fn write_list<T>(
    out: &mut Vec<u8>,
    items: impl IntoIterator<Item = T>,
    write: impl Fn(&mut Vec<u8>, T),
) {
    out.push(b'[');
    for (index, item) in items.into_iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write(out, item);
    }
    out.push(b']');
}
