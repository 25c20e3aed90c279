//! One file, one struct: every setting of the server.

#[derive(Debug, Clone, Default)]
pub struct Config {}

impl Config {
    pub fn silent_after(&self) -> std::time::Duration {
        todo!()
    }
}
