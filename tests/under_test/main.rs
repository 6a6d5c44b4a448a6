//! The real binary, for tests that start and kill processes.

fn main() -> std::process::ExitCode {
    firmforms::main()
}
