//! The catalog: applications, and how they are added.

pub(super) mod add;
pub(super) mod application;
pub(super) mod compatibility;
pub(super) mod copies;
pub(super) mod catalog_view;
