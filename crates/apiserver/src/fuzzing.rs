//! Entry points for the fuzzer (`fuzz/`) and for the test that replays its corpus; see `apimachinery::fuzzing` for the others.

use crate::rest::{Address, Query};

/// All targets of this crate.
pub const TARGETS: [apimachinery::fuzzing::FuzzTarget; 1] = [("url", url)];

/// Parsing a path and a query never panics, and a path segment contains a slash only if it was percent-encoded.
pub fn url(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let (path, query) = text.split_once('?').unwrap_or((text, ""));
    if let Some(address) = Address::parse(path) {
        assert!(!address.plural.is_empty());
        let pieces = [Some(&address.plural), address.name.as_ref(), address.namespace.as_ref()];
        let slashes = pieces.into_iter().flatten().filter(|piece| piece.contains('/')).count();
        assert!(slashes == 0 || path.to_ascii_lowercase().contains("%2f"));
    }
    let query = Query::parse(query);
    let _ = (query.number("limit"), query.timeout(), query.flag("watch"), query.is_dry_run());
    assert!(!query.field_manager("").is_empty());
}
