//! The `firmforms` command.

fn main() -> std::process::ExitCode {
    firmforms::main()
}
