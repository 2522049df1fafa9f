//! Opens a file as UTF-8 text, whichever byte order mark it begins with.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use encoding_rs_io::DecodeReaderBytesBuilder;

/// The text of a file, read piece by piece.
pub(super) type Source = BufReader<Box<dyn Read>>;

/// Opens a file; `-` is standard input.
pub(super) fn open(path: &Path) -> io::Result<Source> {
    if path == Path::new("-") {
        return Ok(decoded(io::stdin().lock()));
    }
    Ok(decoded(File::open(path)?))
}

/// Turns bytes into UTF-8: UTF-16 is known by its byte order mark, which is dropped.
pub(super) fn decoded(bytes: impl Read + 'static) -> Source {
    let text = DecodeReaderBytesBuilder::new().utf8_passthru(true).strip_bom(true).build(bytes);
    BufReader::with_capacity(64 * 1024, Box::new(text))
}

/// Tells whether text of unknown form begins as JSON does, as kubectl tells them apart.
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
