//! `plimsoll sample-server`: the game server of `examples/simple-game-server`, built in so that the quickstart needs no second build.

use std::process::ExitCode;

use crate::args::SampleServer;

pub(crate) fn run(args: SampleServer) -> ExitCode {
    let name = "simple-game-server".into();
    simple_game_server::main(std::iter::once(name).chain(args.flags))
}
