//! The catalog: what can be deployed, and how it gets there.

pub(super) mod add;
pub(super) mod application;
pub(super) mod copies;
pub(super) mod shelf;
