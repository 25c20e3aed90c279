//! The machine on the bench.

pub(crate) mod bench;
mod desired;
mod gateway;
mod hold;
mod policies;
mod preload;
mod properties;
mod trouble;
mod work;
