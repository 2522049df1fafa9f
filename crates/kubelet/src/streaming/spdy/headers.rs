//! The header blocks of SPDY/3.1: pairs of names and values, compressed with one zlib stream per direction.

use std::collections::BTreeMap;

use bytes::Buf as _;
use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

use super::ProtocolError;

/// The longest header block after decompression, in bytes.
const LONGEST: usize = 16 << 10;

/// Names and values; names are in lower case.
pub(in crate::streaming) type Headers = BTreeMap<String, String>;

/// The words that the dictionary of SPDY/3 begins with, each after its length in four bytes.
const WORDS: &str = "options head post put delete trace accept accept-charset accept-encoding accept-language \
    accept-ranges age allow authorization cache-control connection content-base content-encoding content-language \
    content-length content-location content-md5 content-range content-type date etag expect expires from host if-match \
    if-modified-since if-none-match if-range if-unmodified-since last-modified location max-forwards pragma \
    proxy-authenticate proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade \
    user-agent vary via warning www-authenticate method get status 200_OK version HTTP/1.1 url public set-cookie \
    keep-alive origin";

/// The text that it ends with.
const TEXT: &str = "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505\
    203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidden\
    404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable\
    Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT\
    chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,text/javascript,\
    publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0.";

/// Returns the dictionary of SPDY/3.
fn dictionary() -> Vec<u8> {
    let mut dictionary = Vec::new();
    for word in WORDS.split_whitespace() {
        dictionary.extend_from_slice(&(word.len() as u32).to_be_bytes());
        dictionary.extend_from_slice(word.replace('_', " ").as_bytes());
    }
    dictionary.extend_from_slice(TEXT.as_bytes());
    dictionary
}

/// Decompresses the header blocks of one direction.
pub(super) struct HeaderDecoder(Decompress);

impl Default for HeaderDecoder {
    fn default() -> Self {
        Self(Decompress::new(true))
    }
}

impl HeaderDecoder {
    /// Reads a header block.
    pub(super) fn decode(&mut self, block: &[u8]) -> Result<Headers, ProtocolError> {
        parse(&self.decompress(block)?)
    }

    fn decompress(&mut self, mut block: &[u8]) -> Result<Vec<u8>, ProtocolError> {
        let mut out = Vec::with_capacity(LONGEST);
        loop {
            let (read, written) = (self.0.total_in(), out.len());
            let status = self.0.decompress_vec(block, &mut out, FlushDecompress::Sync);
            block.advance(usize::try_from(self.0.total_in() - read).unwrap_or(block.len()));
            match status {
                Err(err) if err.needs_dictionary().is_some() => {
                    let set = self.0.set_dictionary(&dictionary());
                    set.map_err(|_| ProtocolError::new("headers have another dictionary"))?;
                }
                Err(_) | Ok(Status::StreamEnd) => {
                    return Err(ProtocolError::new("headers are not compressed with zlib"));
                }
                Ok(_) if out.len() == LONGEST => {
                    return Err(ProtocolError::new(format!(
                        "headers are longer than {LONGEST} bytes"
                    )));
                }
                Ok(_) if block.is_empty() || out.len() == written => return Ok(out),
                Ok(_) => {}
            }
        }
    }
}

/// Reads the pairs of a header block.
fn parse(mut block: &[u8]) -> Result<Headers, ProtocolError> {
    let short = || ProtocolError::new("headers are incomplete");
    let count = block.try_get_u32().map_err(|_| short())?;
    let mut text = || -> Result<String, ProtocolError> {
        let length = block.try_get_u32().map_err(|_| short())? as usize;
        let bytes = block.get(..length).ok_or_else(short)?;
        let text = String::from_utf8_lossy(bytes).into_owned();
        block.advance(length);
        Ok(text)
    };
    // A count that is too high fails as soon as the block is at its end.
    (0..count).map(|_| Ok((text()?.to_lowercase(), text()?))).collect()
}

/// Compresses the header blocks of one direction.
pub(in crate::streaming) struct HeaderEncoder(Compress);

impl HeaderEncoder {
    pub(in crate::streaming) fn new() -> Result<Self, ProtocolError> {
        let mut compress = Compress::new(Compression::fast(), true);
        let set = compress.set_dictionary(&dictionary());
        set.map_err(|err| ProtocolError::new(format!("no compression: {err}")))?;
        Ok(Self(compress))
    }

    /// Returns a block without headers.
    pub(super) fn encode_empty(&mut self) -> Vec<u8> {
        self.encode(&0_u32.to_be_bytes())
    }

    fn encode(&mut self, block: &[u8]) -> Vec<u8> {
        // The block is never longer than a few words; what a flush adds is less than this.
        let mut out = Vec::with_capacity(block.len() + 64);
        // Without an error: there is room for all of it.
        let _ = self.0.compress_vec(block, &mut out, FlushCompress::Sync);
        out
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    fn plain(headers: &[(&str, &str)]) -> Vec<u8> {
        let mut block = (headers.len() as u32).to_be_bytes().to_vec();
        for text in headers.iter().flat_map(|(name, value)| [name, value]) {
            block.extend_from_slice(&(text.len() as u32).to_be_bytes());
            block.extend_from_slice(text.as_bytes());
        }
        block
    }

    /// Returns the first header block of a connection.
    pub(in crate::streaming) fn block(headers: &[(&str, &str)]) -> Vec<u8> {
        HeaderEncoder::new().unwrap().encode(&plain(headers))
    }

    #[test]
    fn the_dictionary_is_that_of_the_specification() {
        let dictionary = dictionary();
        assert_eq!(dictionary.len(), 1423);
        let (mut a, mut b) = (1_u32, 0_u32);
        for byte in dictionary {
            a = (a + u32::from(byte)) % 65521;
            b = (b + a) % 65521;
        }
        assert_eq!(
            b << 16 | a,
            0xe3c6_a7c2,
            "its Adler-32 checksum, which every connection begins with"
        );
    }

    #[test]
    fn blocks_of_one_direction_share_their_context() {
        let (mut encoder, mut decoder) = (HeaderEncoder::new().unwrap(), HeaderDecoder::default());
        for number in ["0", "1", "2"] {
            let headers = [("RequestID", number), ("streamtype", "data")];
            let read = decoder.decode(&encoder.encode(&plain(&headers))).unwrap();
            assert_eq!(read["requestid"], number);
            assert_eq!(read["streamtype"], "data");
        }
        assert!(decoder.decode(&encoder.encode_empty()).unwrap().is_empty());
    }

    #[test]
    fn headers_that_are_too_long_or_incomplete_are_refused() {
        let long = "x".repeat(LONGEST);
        let mut encoder = HeaderEncoder::new().unwrap();
        let mut bomb = Vec::with_capacity(LONGEST);
        encoder.0.compress_vec(&plain(&[("a", &long)]), &mut bomb, FlushCompress::Sync).unwrap();
        let refused = HeaderDecoder::default().decode(&bomb).unwrap_err();
        assert_eq!(refused.to_string(), "headers are longer than 16384 bytes");
        for block in [&[0, 0, 0][..], &[0, 0, 0, 1, 0, 0, 0, 9, b'a'], &[0xff; 8]] {
            let refused = parse(block).unwrap_err();
            assert_eq!(refused.to_string(), "headers are incomplete", "{block:?}");
        }
    }
}
