//! A number with a capacity, and what may be done to it.

/// One counter of a game server, or of its template.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counter {
    /// The present value. Nothing promises that it is within the capacity.
    pub count: i64,
    /// The most it should be; 0 is no room at all.
    pub capacity: i64,
}

impl Counter {
    /// Gives the room that is left; less than none when the count is beyond the capacity.
    pub fn available(self) -> i64 {
        self.capacity.saturating_sub(self.count)
    }
}
