//! The Redis protocol, version 2, for a few commands.

use std::io::{Error, ErrorKind};

use futures::future::BoxFuture;
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _};

/// The longest line, and the longest string, that is read.
const LONGEST: u64 = 1 << 20;
/// The most elements of an array, and how deep arrays are nested.
const MOST: i64 = 100_000;
const DEEPEST: usize = 8;

/// A value of the protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    Text(String),
    Error(String),
    Integer(i64),
    Nil,
    Array(Vec<Reply>),
}

impl Reply {
    pub(super) fn text(&self) -> Option<&str> {
        if let Self::Text(text) = self { Some(text) } else { None }
    }

    pub(super) fn integer(&self) -> Option<i64> {
        if let Self::Integer(number) = self { Some(*number) } else { None }
    }

    pub(super) fn array(&self) -> Option<&[Reply]> {
        if let Self::Array(items) = self { Some(items) } else { None }
    }

    /// Finds a value in an array of names and values.
    pub(super) fn field(&self, name: &str) -> Option<&Reply> {
        let pairs = self.array()?.chunks_exact(2);
        let mut found = pairs.filter(|pair| pair[0].text() == Some(name));
        found.next().map(|pair| &pair[1])
    }
}

/// Writes a command.
pub(super) fn encode(command: &[&str]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", command.len()).into_bytes();
    for part in command {
        bytes.extend_from_slice(format!("${}\r\n{part}\r\n", part.len()).as_bytes());
    }
    bytes
}

/// Reads one reply.
pub(super) async fn read(from: &mut (impl AsyncBufRead + Unpin + Send)) -> Result<Reply, Error> {
    read_at(from, 0).await
}

fn read_at<R: AsyncBufRead + Unpin + Send>(
    from: &mut R,
    depth: usize,
) -> BoxFuture<'_, Result<Reply, Error>> {
    Box::pin(async move {
        let line = read_line(from).await?;
        let (kind, rest) = line.split_at_checked(1).ok_or_else(|| wrong("an empty line"))?;
        let number = || rest.parse::<i64>().map_err(|_| wrong("a length that is no number"));
        match kind {
            "+" => Ok(Reply::Text(rest.to_owned())),
            "-" => Ok(Reply::Error(rest.to_owned())),
            ":" => Ok(Reply::Integer(number()?)),
            "$" | "*" if number()? < 0 => Ok(Reply::Nil),
            "$" => {
                let length = u64::try_from(number()?).unwrap_or(0);
                if length > LONGEST {
                    return Err(wrong("a string that is too long"));
                }
                let mut bytes = Vec::new();
                from.take(length + 2).read_to_end(&mut bytes).await?;
                if bytes.len() as u64 != length + 2 {
                    return Err(ErrorKind::UnexpectedEof.into());
                }
                bytes.truncate(bytes.len() - 2);
                Ok(Reply::Text(String::from_utf8_lossy(&bytes).into_owned()))
            }
            "*" if number()? > MOST || depth == DEEPEST => Err(wrong("an array that is too large")),
            "*" => {
                let mut items = Vec::new();
                for _ in 0..number()? {
                    items.push(read_at(from, depth + 1).await?);
                }
                Ok(Reply::Array(items))
            }
            _ => Err(wrong("something other than the Redis protocol")),
        }
    })
}

async fn read_line(from: &mut (impl AsyncBufRead + Unpin)) -> Result<String, Error> {
    let mut line = Vec::new();
    from.take(LONGEST).read_until(b'\n', &mut line).await?;
    if line.is_empty() {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    let line = line.strip_suffix(b"\r\n").ok_or_else(|| wrong("a line without an end"))?;
    String::from_utf8(line.to_vec()).map_err(|_| wrong("a line that is not UTF-8"))
}

fn wrong(problem: &str) -> Error {
    Error::new(ErrorKind::InvalidData, problem)
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn parsed(text: &str) -> Result<Reply, String> {
        read(&mut text.as_bytes()).await.map_err(|err| err.to_string())
    }

    #[tokio::test]
    async fn every_reply_is_read() {
        let text = |text: &str| Reply::Text(text.to_owned());
        for (bytes, wanted) in [
            ("+OK\r\n", text("OK")),
            ("-ERR no\r\n", Reply::Error("ERR no".to_owned())),
            (":-7\r\n", Reply::Integer(-7)),
            ("$-1\r\n", Reply::Nil),
            ("*-1\r\n", Reply::Nil),
            ("$5\r\na\r\nb!\r\n", text("a\r\nb!")),
            ("*2\r\n$3\r\nlag\r\n:3\r\n", Reply::Array(vec![text("lag"), Reply::Integer(3)])),
        ] {
            assert_eq!(parsed(bytes).await, Ok(wanted), "{bytes}");
        }
        let pair = Reply::Array(vec![text("lag"), Reply::Integer(3)]);
        assert_eq!(pair.field("lag"), Some(&Reply::Integer(3)));
        assert_eq!(encode(&["GET", "a b"]), b"*2\r\n$3\r\nGET\r\n$3\r\na b\r\n");
    }

    #[tokio::test]
    async fn what_is_not_the_protocol_or_has_no_end_is_an_error() {
        let deep = "*1\r\n".repeat(20);
        for (bytes, problem) in [
            ("HTTP/1.1 400\r\n", "something other than the Redis protocol"),
            ("$9999999999\r\n", "a string that is too long"),
            ("*9999999\r\n", "an array that is too large"),
            (&deep, "an array that is too large"),
            ("$3\r\nab", "unexpected end of file"),
            ("+OK", "a line without an end"),
            ("", "unexpected end of file"),
            ("$x\r\n", "a length that is no number"),
        ] {
            assert_eq!(parsed(bytes).await, Err(problem.to_owned()), "{bytes}");
        }
    }
}
