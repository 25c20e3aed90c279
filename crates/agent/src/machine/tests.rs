//! The machine on the bench.

pub(crate) mod bench;
mod desired;
mod gateway;
mod hold;
mod policies;
mod properties;
mod trouble;
mod work;
