//! Deployments: one application on one device each; the list, and one of them.

mod asks;
pub(super) mod detail;
pub(super) mod list;
