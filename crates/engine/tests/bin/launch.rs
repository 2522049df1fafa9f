//! Starts the processes of the tests.

use std::process::ExitCode;

fn main() -> ExitCode {
    plimsoll_engine::runtime::launch::main(std::env::args_os().skip(1))
}
