//! Deployments: one application on one device each; the list, and one of them.

pub(super) mod detail;
pub(super) mod list;
