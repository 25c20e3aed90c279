//! Deployments, one application on one device each: list and detail pages.

mod asks;
pub(super) mod detail;
pub(super) mod list;
