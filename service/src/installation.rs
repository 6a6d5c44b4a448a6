//! Whether an installation may begin.

/// Whether a command may begin an installation: make a data directory, a key and a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Installation {
    /// `serve`, `migrate` and `demo`.
    MayBegin,
    /// Every other command: a mistyped directory must not become an empty installation.
    MustExist,
}
