//! The engine from the outside: through clients, over TLS, across restarts.

#![allow(clippy::unwrap_used, reason = "a test says what is wrong by failing, also in its helpers")]

mod corpus;
mod in_process;
mod restart;

use plimsoll_engine::{Engine, Settings};

/// Opens an engine that forgets everything.
async fn ephemeral() -> Engine {
    Engine::open(Settings::ephemeral()).await.unwrap()
}
