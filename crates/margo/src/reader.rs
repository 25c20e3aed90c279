//! A cursor over a parsed document that collects every finding with its path and line.
