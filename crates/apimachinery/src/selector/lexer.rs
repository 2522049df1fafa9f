//! Splits a label selector into tokens.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token {
    End,
    Close,
    Comma,
    Not,
    DoubleEquals,
    Equals,
    Greater,
    Identifier,
    In,
    Less,
    NotEquals,
    NotIn,
    Open,
}

/// Splits `text` into tokens with their literals; the last one is always `End`.
pub(super) fn tokens(text: &str) -> Vec<(Token, &str)> {
    let bytes = text.as_bytes();
    let mut out = Vec::new();
    let mut at = 0;
    loop {
        while at < bytes.len() && is_space(bytes[at]) {
            at += 1;
        }
        // A NUL byte ends the text, as it does for the real lexer.
        if at >= bytes.len() || bytes[at] == 0 {
            out.push((Token::End, ""));
            return out;
        }
        let start = at;
        if let Some((token, length)) = symbol(&bytes[at..]) {
            at += length;
            out.push((token, &text[start..at]));
            continue;
        }
        while at < bytes.len()
            && bytes[at] != 0
            && !is_space(bytes[at])
            && symbol(&bytes[at..]).is_none()
        {
            at += 1;
        }
        let literal = &text[start..at];
        // The NUL that ends an identifier is consumed with it.
        if bytes.get(at) == Some(&0) {
            at += 1;
        }
        let token = match literal {
            "in" => Token::In,
            "notin" => Token::NotIn,
            _ => Token::Identifier,
        };
        out.push((token, literal));
    }
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

/// Reads the longest operator or parenthesis at the start of `bytes`.
fn symbol(bytes: &[u8]) -> Option<(Token, usize)> {
    let found = match bytes {
        [b'=', b'=', ..] => (Token::DoubleEquals, 2),
        [b'!', b'=', ..] => (Token::NotEquals, 2),
        [b'=', ..] => (Token::Equals, 1),
        [b'!', ..] => (Token::Not, 1),
        [b'(', ..] => (Token::Open, 1),
        [b')', ..] => (Token::Close, 1),
        [b',', ..] => (Token::Comma, 1),
        [b'>', ..] => (Token::Greater, 1),
        [b'<', ..] => (Token::Less, 1),
        _ => return None,
    };
    Some(found)
}
