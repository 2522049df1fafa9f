//! The requests for sessions, as an API server sends them.

use http::Uri;
use percent_encoding::percent_decode_str;

use super::StreamRefused;
use super::{channels, port_forward};

/// A request for a session.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct StreamRequest {
    pub(super) namespace: String,
    pub(super) pod: String,
    /// The name of the container; empty for a port forward.
    pub(super) container: String,
    pub(super) kind: StreamKind,
    pub(super) io: StreamIo,
}

/// What a session is for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum StreamKind {
    /// Runs a command.
    Exec(Vec<String>),
    /// Connects to the process of the container.
    Attach,
    /// Connects to ports of the pod.
    PortForward,
}

impl StreamKind {
    /// Returns the websocket subprotocols that it can be carried with, the best first.
    pub(super) fn subprotocols(&self) -> &'static [&'static str] {
        match self {
            Self::Exec(_) | Self::Attach => channels::SUBPROTOCOLS,
            Self::PortForward => port_forward::SUBPROTOCOLS,
        }
    }
}

/// The streams that a client wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct StreamIo {
    pub(super) stdin: bool,
    pub(super) stdout: bool,
    pub(super) stderr: bool,
    pub(super) tty: bool,
}

impl StreamRequest {
    /// Reads a request.
    pub(super) fn parse(uri: &Uri) -> Result<Self, StreamRefused> {
        let segments: Vec<String> =
            uri.path().trim_matches('/').split('/').map(|part| decode(part, false)).collect();
        let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
        let (mut io, mut command) = (StreamIo::default(), Vec::new());
        for (name, value) in
            uri.query().unwrap_or_default().split('&').filter_map(|pair| pair.split_once('='))
        {
            let is_set = matches!(value, "1" | "true");
            match name {
                "input" => io.stdin = is_set,
                "output" => io.stdout = is_set,
                "error" => io.stderr = is_set,
                "tty" => io.tty = is_set,
                "command" => command.push(decode(value, true)),
                _ => {}
            }
        }
        let (kind, namespace, pod, container) = match segments[..] {
            ["exec", namespace, pod, container] => {
                (StreamKind::Exec(command), namespace, pod, container)
            }
            ["attach", namespace, pod, container] => {
                (StreamKind::Attach, namespace, pod, container)
            }
            ["portForward", namespace, pod] => (StreamKind::PortForward, namespace, pod, ""),
            _ => return Err(StreamRefused::new(404, "404 page not found")),
        };
        if kind == StreamKind::Exec(Vec::new()) {
            return Err(StreamRefused::new(400, "you must specify a command to execute"));
        }
        if kind != StreamKind::PortForward && !(io.stdin || io.stdout || io.stderr) {
            let why = "you must specify at least 1 of stdin, stdout, stderr";
            return Err(StreamRefused::new(400, why));
        }
        // A terminal has one output only.
        io.stderr &= !io.tty;
        let [namespace, pod, container] = [namespace, pod, container].map(str::to_owned);
        Ok(Self { namespace, pod, container, kind, io })
    }
}

/// Decodes a part of a URL.
fn decode(text: &str, is_query: bool) -> String {
    let text = if is_query { text.replace('+', " ") } else { text.to_owned() };
    percent_decode_str(&text).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_those_that_the_api_server_sends() {
        let parse = |uri: &str| StreamRequest::parse(&uri.parse().unwrap());
        let exec = parse(
            "/exec/n/p/c?command=sh&command=-c&command=echo+%22a%20b%22&input=1&error=1&tty=1",
        );
        let exec = exec.unwrap();
        let command = ["sh", "-c", "echo \"a b\""].map(str::to_owned).to_vec();
        assert_eq!(exec.kind, StreamKind::Exec(command));
        let io = StreamIo { stdin: true, stdout: false, stderr: false, tty: true };
        assert_eq!((exec.container.as_str(), exec.io), ("c", io));
        assert_eq!(parse("/portForward/n/p").unwrap().kind, StreamKind::PortForward);
        assert_eq!(parse("/attach/n/p/c?output=true").unwrap().kind, StreamKind::Attach);
        for (uri, code) in [
            ("/exec/n/p/c?output=1", 400),
            ("/exec/n/p/c?command=a", 400),
            ("/attach/n/p/c", 400),
            ("/attach/n/p?output=1", 404),
        ] {
            assert_eq!(parse(uri).unwrap_err().code, code, "{uri}");
        }
    }
}
