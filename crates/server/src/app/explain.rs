//! Status explained. Facts are gathered here; `words` turns them into sentences, pure and the same for every reader.

mod application;
mod load;
mod sentence;
mod words;

pub use application::{CompatibilityCache, Explained, application, compatibility};
pub use load::{deployment, device};
pub(crate) use sentence::sentence;
pub use words::next_action;
