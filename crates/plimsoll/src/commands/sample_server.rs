//! `plimsoll sample-server`: the game server of `examples/simple-game-server`, so that a first try needs no second build.

use std::process::ExitCode;

use crate::args::SampleServer;

pub(crate) fn run(args: SampleServer) -> ExitCode {
    let name = "simple-game-server".into();
    simple_game_server::main(std::iter::once(name).chain(args.flags))
}
