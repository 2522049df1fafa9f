//! The game server as a program of its own.

fn main() -> std::process::ExitCode {
    simple_game_server::main(std::env::args_os())
}
