//! Tests of the machine.

pub(crate) mod bench;
mod desired;
mod gateway;
mod long_poll;
mod policies;
mod preload;
mod properties;
mod trouble;
mod work;
