//! The SDK server as the published clients see it, behind each of its three servers: in this process, as a sidecar of its
//! own over TLS, and as the local stand-in.

mod local;
mod node;
mod rest;
mod rust;
mod sample;
mod sdk_servers;
mod websocket;
