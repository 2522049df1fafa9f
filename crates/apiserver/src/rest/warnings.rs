//! Collects the warnings about a request.

use std::collections::HashSet;

use http::HeaderValue;

/// The most characters that all warnings of an answer have together; if they have more, each is cut off, as by kube-apiserver.
const MOST: usize = 4096;
/// The length to which it is cut off.
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
        let sent = headers(&["a \"b\"", "c\n", "c\n"].map(str::to_owned));
        assert_eq!(sent, ["299 - \"a \\\"b\\\"\"", "299 - \"c\""]);
    }

    #[test]
    fn too_many_warnings_are_cut_off_and_the_rest_left_out() {
        let many: Vec<String> = (0..1000).map(|n| format!("{n:04}{}", "x".repeat(1000))).collect();
        let sent = headers(&many);
        assert_eq!(sent.len(), MOST / CUT);
        assert!(sent.iter().all(|header| header.len() == CUT + "299 - \"\"".len()));
    }
}
