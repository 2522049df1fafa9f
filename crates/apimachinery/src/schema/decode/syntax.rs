//! Reproduces the syntax errors of Go's JSON parser.
//!
//! Only used after parsing has failed: a small copy of the states of Go's scanner, for its error messages.

use crate::depth::{MAX_DEPTH, TOO_DEEP};

/// Returns the first syntax error of a text in Go's wording.
pub(super) fn syntax_error(text: &[u8]) -> String {
    match (Scanner { text, at: 0, depth: 0 }).document() {
        Ok(()) => "unexpected end of JSON input".to_owned(),
        Err(syntax_error) => syntax_error,
    }
}

struct Scanner<'t> {
    text: &'t [u8],
    at: usize,
    depth: usize,
}

impl Scanner<'_> {
    fn document(&mut self) -> Result<(), String> {
        self.value()?;
        match self.peek() {
            None => Err(TOO_DEEP.to_owned()),
            Some(_) => self.unexpected("after top-level value"),
        }
    }

    fn peek(&mut self) -> Option<u8> {
        while self.text.get(self.at).is_some_and(u8::is_ascii_whitespace) {
            self.at += 1;
        }
        self.text.get(self.at).copied()
    }

    fn unexpected<T>(&self, context: &str) -> Result<T, String> {
        match self.text.get(self.at) {
            None => Err("unexpected end of JSON input".to_owned()),
            Some(byte) => Err(format!("invalid character {} {context}", quoted(*byte))),
        }
    }

    fn value(&mut self) -> Result<(), String> {
        match self.peek() {
            Some(b'{') => self.nested(Self::object)?,
            Some(b'[') => self.nested(Self::array)?,
            Some(b'"') => self.string()?,
            Some(b't') => self.literal("true")?,
            Some(b'f') => self.literal("false")?,
            Some(b'n') => self.literal("null")?,
            Some(b'-' | b'0'..=b'9') => self.number()?,
            Some(_) | None => return self.unexpected("looking for beginning of value"),
        }
        Ok(())
    }

    fn nested(&mut self, read: impl FnOnce(&mut Self) -> Result<(), String>) -> Result<(), String> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(TOO_DEEP.to_owned());
        }
        read(self)?;
        self.depth -= 1;
        Ok(())
    }

    fn object(&mut self) -> Result<(), String> {
        self.at += 1;
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(());
        }
        let mut context = "looking for beginning of object key string";
        loop {
            if self.peek() != Some(b'"') {
                return self.unexpected(context);
            }
            self.string()?;
            if self.peek() != Some(b':') {
                return self.unexpected("after object key");
            }
            self.at += 1;
            self.value()?;
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => break,
                Some(_) | None => return self.unexpected("after object key:value pair"),
            }
            context = "looking for beginning of object key string";
        }
        self.at += 1;
        Ok(())
    }

    fn array(&mut self) -> Result<(), String> {
        self.at += 1;
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(());
        }
        loop {
            self.value()?;
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => break,
                Some(_) | None => return self.unexpected("after array element"),
            }
        }
        self.at += 1;
        Ok(())
    }

    fn string(&mut self) -> Result<(), String> {
        self.at += 1;
        loop {
            match self.text.get(self.at) {
                None => return self.unexpected(""),
                Some(b'"') => break,
                Some(b'\\') => self.escape()?,
                Some(byte) if *byte < 0x20 => return self.unexpected("in string literal"),
                Some(_) => self.at += 1,
            }
        }
        self.at += 1;
        Ok(())
    }

    fn escape(&mut self) -> Result<(), String> {
        self.at += 1;
        match self.text.get(self.at) {
            Some(b'b' | b'f' | b'n' | b'r' | b't' | b'\\' | b'/' | b'"') => self.at += 1,
            Some(b'u') => {
                for _ in 0..4 {
                    self.at += 1;
                    if !self.text.get(self.at).is_some_and(u8::is_ascii_hexdigit) {
                        return self.unexpected("in \\u hexadecimal character escape");
                    }
                }
                self.at += 1;
            }
            Some(_) | None => return self.unexpected("in string escape code"),
        }
        Ok(())
    }

    fn literal(&mut self, word: &str) -> Result<(), String> {
        for (place, expected) in word.bytes().enumerate() {
            if self.text.get(self.at) != Some(&expected) {
                let context =
                    format!("in literal {word} (expecting {})", quoted(word.as_bytes()[place]));
                return self.unexpected(&context);
            }
            self.at += 1;
        }
        Ok(())
    }

    fn number(&mut self) -> Result<(), String> {
        if self.text.get(self.at) == Some(&b'-') {
            self.at += 1;
        }
        if self.text.get(self.at) == Some(&b'0') {
            self.at += 1;
        } else {
            self.digits("in numeric literal")?;
        }
        if self.text.get(self.at) == Some(&b'.') {
            self.at += 1;
            self.digits("after decimal point in numeric literal")?;
        }
        if matches!(self.text.get(self.at), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.text.get(self.at), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits("in exponent of numeric literal")?;
        }
        Ok(())
    }

    fn digits(&mut self, context: &str) -> Result<(), String> {
        if !self.text.get(self.at).is_some_and(u8::is_ascii_digit) {
            return self.unexpected(context);
        }
        while self.text.get(self.at).is_some_and(u8::is_ascii_digit) {
            self.at += 1;
        }
        Ok(())
    }
}

fn quoted(byte: u8) -> String {
    match byte {
        b'\'' => r"'\''".to_owned(),
        b'"' => "'\"'".to_owned(),
        b'\n' => r"'\n'".to_owned(),
        b'\t' => r"'\t'".to_owned(),
        b'\r' => r"'\r'".to_owned(),
        0x20..=0x7e => format!("'{}'", char::from(byte)),
        0..0x20 | 0x7f => format!("'\\x{byte:02x}'"),
        0x80.. => format!("'{}'", char::from(byte)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn syntax_errors_match_go() {
        for (text, expected) in [
            ("", "unexpected end of JSON input"),
            ("{\"a\":1,,", "invalid character ',' looking for beginning of object key string"),
            ("{\"a\" 1}", "invalid character '1' after object key"),
            ("{\"a\":1", "unexpected end of JSON input"),
            ("nope", "invalid character 'o' in literal null (expecting 'u')"),
            ("{} x", "invalid character 'x' after top-level value"),
            ("[1 2]", "invalid character '2' after array element"),
        ] {
            assert_eq!(syntax_error(text.as_bytes()), expected, "{text}");
        }
    }
}
