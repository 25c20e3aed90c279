//! Why something is as it is. Facts are gathered here; the words are in `words`, pure, for every reader the same.

mod application;
mod load;
mod sentence;
mod words;

pub use application::{Explained, Fits, application};
pub use load::{deployment, device};
pub(crate) use sentence::sentence;
pub use words::next_action;
