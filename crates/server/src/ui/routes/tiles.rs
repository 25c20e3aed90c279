//! Counts by state, each with a link to the filtered list.

use crate::ui::markup::Markup;
use crate::ui::words::Badge;

/// The number of items in a state.
pub(super) struct Tile {
    pub(super) count: u64,
    pub(super) state: Markup,
    pub(super) tone: &'static str,
    pub(super) link: String,
    /// The list is filtered by this state.
    pub(super) chosen: bool,
}

impl Tile {
    pub(super) fn new(count: u64, look: Badge, link: String, chosen: bool) -> Self {
        Self { count, tone: look.tone, state: look.into(), link, chosen }
    }
}
