//! The frames of SPDY/3.1.

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};

use super::ProtocolError;
use super::headers::{HeaderDecoder, HeaderEncoder, Headers};

const VERSION: u16 = 3;
const CONTROL: u16 = 0x8000;
const SYN_STREAM: u16 = 1;
const SYN_REPLY: u16 = 2;
const RST_STREAM: u16 = 3;
const PING: u16 = 6;
const GOAWAY: u16 = 7;
const HEADERS: u16 = 8;
const FIN: u8 = 1;
const HEAD: usize = 8;
const STREAM_ID: u32 = 0x7fff_ffff;
/// The longest frame, in bytes. kubectl sends 32 KiB at once.
const LONGEST: usize = 1 << 20;

/// A frame that means something here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::streaming) enum Frame {
    /// Opens a stream.
    Open { stream: u32, headers: Headers, is_last: bool },
    /// Carries data of a stream.
    Data { stream: u32, data: Bytes, is_last: bool },
    /// Aborts a stream.
    Reset { stream: u32 },
    /// Asks for the same frame in return.
    Ping { id: u32 },
    /// Opens no more streams.
    GoAway,
}

/// Why a stream is aborted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(in crate::streaming) enum Status {
    Protocol = 1,
    Refused = 3,
}

/// Splits what a client sends into frames.
#[derive(Default)]
pub(in crate::streaming) struct Decoder {
    buffer: BytesMut,
    headers: HeaderDecoder,
}

impl Decoder {
    /// Adds bytes that were received.
    pub(in crate::streaming) fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns the next frame; `None`: more bytes are needed.
    pub(in crate::streaming) fn next(&mut self) -> Result<Option<Frame>, ProtocolError> {
        while let Some(head) = self.buffer.first_chunk::<HEAD>() {
            let [a, b, c, d, flags, length @ ..] = *head;
            let length = u32::from_be_bytes([0, length[0], length[1], length[2]]) as usize;
            if length > LONGEST {
                return Err(ProtocolError::new(format!("a frame has {length} bytes")));
            }
            if self.buffer.len() < HEAD + length {
                return Ok(None);
            }
            self.buffer.advance(HEAD);
            let body = self.buffer.split_to(length).freeze();
            let (first, second) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
            if first & CONTROL == 0 {
                let stream = u32::from_be_bytes([a, b, c, d]);
                return Ok(Some(Frame::Data { stream, data: body, is_last: flags & FIN != 0 }));
            }
            if first != CONTROL | VERSION {
                return Err(ProtocolError::new("a frame has another version than 3"));
            }
            if let Some(frame) = self.control(second, flags, body)? {
                return Ok(Some(frame));
            }
        }
        Ok(None)
    }

    /// Reads a control frame; `None`: it means nothing here.
    fn control(
        &mut self,
        kind: u16,
        flags: u8,
        mut body: Bytes,
    ) -> Result<Option<Frame>, ProtocolError> {
        let short = |_| ProtocolError::new(format!("a frame of type {kind} is too short"));
        let frame = match kind {
            SYN_STREAM => {
                let stream = body.try_get_u32().map_err(short)? & STREAM_ID;
                // The associated stream, the priority and the slot.
                let rest = body.get(6..).ok_or_else(|| ProtocolError::new("no headers"))?;
                let headers = self.headers.decode(rest)?;
                Frame::Open { stream, headers, is_last: flags & FIN != 0 }
            }
            SYN_REPLY | HEADERS => {
                // All header blocks share one compression context.
                body.try_get_u32().map_err(short)?;
                self.headers.decode(&body)?;
                return Ok(None);
            }
            RST_STREAM => Frame::Reset { stream: body.try_get_u32().map_err(short)? & STREAM_ID },
            PING => Frame::Ping { id: body.try_get_u32().map_err(short)? },
            GOAWAY => Frame::GoAway,
            // Settings, window updates, and what later versions may have.
            _ => return Ok(None),
        };
        Ok(Some(frame))
    }
}

/// Returns a frame that accepts a stream.
pub(in crate::streaming) fn accept(stream: u32, headers: &mut HeaderEncoder) -> Bytes {
    let block = headers.encode_empty();
    control(SYN_REPLY, &[&stream.to_be_bytes(), &block])
}

/// Returns a frame that aborts a stream.
pub(in crate::streaming) fn reset(stream: u32, status: Status) -> Bytes {
    control(RST_STREAM, &[&stream.to_be_bytes(), &(status as u32).to_be_bytes()])
}

/// Returns the answer to a ping.
pub(in crate::streaming) fn ping(id: u32) -> Bytes {
    control(PING, &[&id.to_be_bytes()])
}

/// Returns a frame that carries data.
pub(in crate::streaming) fn data(stream: u32, data: &[u8], is_last: bool) -> Bytes {
    let mut frame = BytesMut::with_capacity(HEAD + data.len());
    frame.put_u32(stream & STREAM_ID);
    put_length(&mut frame, if is_last { FIN } else { 0 }, data.len());
    frame.extend_from_slice(data);
    frame.freeze()
}

fn control(kind: u16, parts: &[&[u8]]) -> Bytes {
    let mut frame = BytesMut::new();
    frame.put_u16(CONTROL | VERSION);
    frame.put_u16(kind);
    put_length(&mut frame, 0, parts.iter().map(|part| part.len()).sum());
    parts.iter().for_each(|part| frame.extend_from_slice(part));
    frame.freeze()
}

fn put_length(frame: &mut BytesMut, flags: u8, length: usize) {
    frame.put_u8(flags);
    frame.put_uint(length as u64, 3);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_read_however_they_arrive() {
        // What Kubernetes' own client sends first: its error stream is half closed at once.
        let mut bytes = Vec::new();
        let block = super::super::headers::tests::block(&[("streamtype", "error"), ("port", "80")]);
        let mut open = BytesMut::new();
        open.put_u16(CONTROL | VERSION);
        open.put_u16(SYN_STREAM);
        put_length(&mut open, FIN, 10 + block.len());
        open.extend_from_slice(&[0, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
        open.extend_from_slice(&block);
        bytes.extend_from_slice(&open);
        bytes.extend_from_slice(&control(9, &[&[0; 8]]));
        bytes.extend_from_slice(&data(3, b"hello", true));
        bytes.extend_from_slice(&ping(7));
        bytes.extend_from_slice(&reset(3, Status::Refused));
        bytes.extend_from_slice(&control(GOAWAY, &[&[0; 8]]));
        for size in [1, 7, bytes.len()] {
            let (mut decoder, mut frames) = (Decoder::default(), Vec::new());
            for chunk in bytes.chunks(size) {
                decoder.push(chunk);
                while let Some(frame) = decoder.next().unwrap() {
                    frames.push(frame);
                }
            }
            let headers = [("port", "80"), ("streamtype", "error")];
            let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned()));
            assert_eq!(
                frames,
                [
                    Frame::Open { stream: 1, headers: headers.into(), is_last: true },
                    Frame::Data { stream: 3, data: Bytes::from_static(b"hello"), is_last: true },
                    Frame::Ping { id: 7 },
                    Frame::Reset { stream: 3 },
                    Frame::GoAway,
                ]
            );
        }
    }

    #[test]
    fn frames_that_are_too_long_or_broken_end_the_connection() {
        for bytes in [
            &[0, 0, 0, 1, 0, 0xff, 0xff, 0xff][..],
            &[0x80, 2, 0, 1, 0, 0, 0, 0],
            &[0x80, 3, 0, 1, 0, 0, 0, 2, 0, 0],
            &[0x80, 3, 0, 6, 0, 0, 0, 0],
            &[0x80, 3, 0, 1, 0, 0, 0, 12, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 2],
        ] {
            let mut decoder = Decoder::default();
            decoder.push(bytes);
            assert!(decoder.next().is_err(), "{bytes:?}");
        }
    }
}
