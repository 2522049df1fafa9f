//! Opens a file as UTF-8 text, whatever byte order mark it begins with.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use encoding_rs_io::DecodeReaderBytesBuilder;

/// A buffered reader of a file's text.
pub(super) type Source = BufReader<Box<dyn Read>>;

/// Opens a file; `-` is standard input.
pub(super) fn open(path: &Path) -> io::Result<Source> {
    if path == Path::new("-") {
        return Ok(decode(io::stdin().lock()));
    }
    Ok(decode(File::open(path)?))
}

/// Decodes to UTF-8: UTF-16 is detected by its byte order mark, which is dropped.
pub(super) fn decode(bytes: impl Read + 'static) -> Source {
    let text = DecodeReaderBytesBuilder::new().utf8_passthru(true).strip_bom(true).build(bytes);
    BufReader::with_capacity(64 * 1024, Box::new(text))
}

/// Whether text begins like JSON; the same check as kubectl's.
pub(super) fn starts_like_json(source: &mut Source) -> io::Result<bool> {
    loop {
        let ready = source.fill_buf()?;
        let blank = ready.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        match ready.get(blank) {
            Some(first) => return Ok(*first == b'{'),
            None if ready.is_empty() => return Ok(false),
            None => source.consume(blank),
        }
    }
}
