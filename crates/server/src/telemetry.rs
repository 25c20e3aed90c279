//! Logs and metrics.

#[derive(Debug, Default)]
pub struct Metrics {}
