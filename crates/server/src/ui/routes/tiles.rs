//! Counts that lead to what they count.

use crate::ui::markup::Markup;
use crate::ui::words::Look;

/// How many are in a state.
pub(super) struct Tile {
    pub(super) count: u64,
    pub(super) state: Markup,
    pub(super) tone: &'static str,
    pub(super) link: String,
    /// Only those are shown.
    pub(super) chosen: bool,
}

impl Tile {
    pub(super) fn new(count: u64, look: Look, link: String, chosen: bool) -> Self {
        Self { count, tone: look.tone, state: look.into(), link, chosen }
    }
}
