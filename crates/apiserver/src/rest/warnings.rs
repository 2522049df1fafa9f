//! What should a client know although its request is carried out?

use std::collections::HashSet;

use http::HeaderValue;

/// How many characters all warnings of an answer have at most; if they have more, each is cut off. As on a real server.
const MOST: usize = 4096;
/// How much of a warning is left then.
const CUT: usize = 256;

/// The warnings about a request, each once.
#[derive(Debug, Default)]
pub(crate) struct Warnings {
    list: Vec<String>,
    known: HashSet<String>,
}

impl Warnings {
    /// Adds warnings that are not there yet.
    pub(super) fn add(&mut self, warnings: impl IntoIterator<Item = String>) {
        for warning in warnings {
            if self.known.insert(warning.clone()) {
                self.list.push(warning);
            }
        }
    }

    /// Writes the warnings as headers.
    pub(super) fn headers(&self) -> Vec<HeaderValue> {
        let length = |text: &String| text.chars().count();
        let fits = self.list.iter().map(length).sum::<usize>() <= MOST;
        let mut written = 0;
        let mut headers = Vec::new();
        for warning in &self.list {
            if written >= MOST {
                break;
            }
            let text: String = warning.chars().take(if fits { MOST } else { CUT }).collect();
            written += length(&text);
            let text = text.replace('\\', "\\\\").replace('"', "\\\"");
            let text: String = text.chars().filter(|c| !c.is_control()).collect();
            headers.extend(format!("299 - \"{text}\"").try_into().ok());
        }
        headers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(warnings: &[String]) -> Vec<String> {
        let mut all = Warnings::default();
        all.add(warnings.iter().cloned());
        all.headers().iter().map(|v| String::from_utf8_lossy(v.as_bytes()).into()).collect()
    }

    #[test]
    fn each_warning_is_a_header_of_its_own() {
        let said = headers(&["a \"b\"", "c\n", "c\n"].map(str::to_owned));
        assert_eq!(said, ["299 - \"a \\\"b\\\"\"", "299 - \"c\""]);
    }

    #[test]
    fn too_many_warnings_are_cut_off_and_the_rest_left_out() {
        let many: Vec<String> = (0..1000).map(|n| format!("{n:04}{}", "x".repeat(1000))).collect();
        let said = headers(&many);
        assert_eq!(said.len(), MOST / CUT);
        assert!(said.iter().all(|header| header.len() == CUT + "299 - \"\"".len()));
    }
}
