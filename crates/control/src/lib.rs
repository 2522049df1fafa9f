//! Controllers: each observes, decides, acts and records.
