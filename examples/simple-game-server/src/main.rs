//! The sample game server as a separate program.

fn main() -> std::process::ExitCode {
    simple_game_server::main(std::env::args_os())
}
