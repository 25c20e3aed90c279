//! What operators and loops can do, apart from how they ask for it.

pub mod publisher;
