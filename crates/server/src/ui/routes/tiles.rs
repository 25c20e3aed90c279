//! Counts by state, each with a link to the filtered list.

use crate::ui::markup::Markup;
use crate::ui::words::Badge;

/// The number of items in a state.
pub(super) struct Tile {
    pub(super) count: u64,
    pub(super) state: Markup,
    pub(super) tone: &'static str,
    /// The API value of the state.
    pub(super) key: &'static str,
    pub(super) link: String,
    /// The list is filtered by this state.
    pub(super) chosen: bool,
}

impl Tile {
    /// States without items are hidden, unless the list is filtered by one.
    pub(super) fn is_shown(&self) -> bool {
        self.count > 0 || self.chosen
    }

    pub(super) fn new(count: u64, style: Badge, link: String, chosen: bool) -> Self {
        Self { count, tone: style.tone, key: style.key, state: style.into(), link, chosen }
    }
}
