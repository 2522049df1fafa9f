//! Quotes user input in messages as kube-apiserver does.
//!
//! It quotes as Go does, which differs from Rust's `{:?}` for control characters, and clients compare messages.

use std::fmt::Write;

/// Quotes `text` as Go's `%q` does.
pub fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\x07' => out.push_str("\\a"),
            '\x08' => out.push_str("\\b"),
            '\x0c' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\x0b' => out.push_str("\\v"),
            c if (c as u32) < 0x20 || c == '\x7f' => {
                let _ = write!(out, "\\x{:02x}", c as u32);
            }
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_as_go_does() {
        for (text, quoted) in [
            ("a", r#""a""#),
            ("a\"b\\", r#""a\"b\\""#),
            ("\n\t\x01\x7f", r#""\n\t\x01\x7f""#),
            ("é\u{85}", "\"é\\u0085\""),
        ] {
            assert_eq!(quote(text), quoted);
        }
    }
}
