//! Keyset pages.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Items per page without a given limit.
pub const LIMIT_DEFAULT: u32 = 100;
/// Maximum items per page, so that one request stays cheap.
pub const LIMIT_MAX: u32 = 1000;

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Page<T> {
    pub items: Vec<T>,
    /// Use this as `after` to get the next page; absent on the last one. Opaque.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}
