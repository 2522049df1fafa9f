//! Node autoscalers: which node groups grow, and which nodes are removed.

pub mod observe;
