//! What does strict decoding find, and how much of it is said?

/// How many notes are kept, as the real server keeps them.
const MOST: usize = 100;
/// How many bytes of notes are written, those that turn out to be known included. A path can be as long as a document and
/// be found as often as the document has members.
const MOST_BYTES: usize = 1 << 20;

/// The first of what strict decoding finds, each note once.
#[derive(Debug, Default)]
pub struct Notes {
    list: Vec<String>,
    written: usize,
}

impl Notes {
    /// Adds a note. It is not even written when there are enough.
    pub fn add(&mut self, note: impl FnOnce() -> String) {
        if self.list.len() >= MOST || self.written >= MOST_BYTES {
            return;
        }
        let note = note();
        self.written += note.len();
        if !self.list.contains(&note) {
            self.list.push(note);
        }
    }

    /// Adds notes that are already written.
    pub fn extend(&mut self, notes: impl IntoIterator<Item = String>) {
        notes.into_iter().for_each(|note| self.add(|| note));
    }

    /// Returns the notes in the order in which they were added.
    pub fn into_vec(self) -> Vec<String> {
        self.list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_note_is_kept_once_and_only_so_many() {
        let mut notes = Notes::default();
        notes.extend(["a", "b", "a"].map(str::to_owned));
        notes.extend((0..1000).map(|n| n.to_string()));
        let kept = notes.into_vec();
        assert_eq!((kept.len(), &kept[..3]), (MOST, &["a", "b", "0"].map(str::to_owned)[..]));
    }

    #[test]
    fn long_notes_are_not_written_again_and_again() {
        let (mut notes, long) = (Notes::default(), "x".repeat(MOST_BYTES / 4));
        let mut written = 0;
        for _ in 0..1000 {
            notes.add(|| {
                written += 1;
                long.clone()
            });
        }
        assert_eq!((written, notes.into_vec().len()), (4, 1));
    }
}
