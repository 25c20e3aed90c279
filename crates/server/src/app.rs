//! What operators and loops can do, apart from how they ask for it.

pub(crate) mod compose;
pub mod publisher;
