//! The machine of a measurement, without names and dates.

use super::nginx;
use serde::{Deserialize, Serialize};
use std::process::Command;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    pub processor: String,
    pub cores: usize,
    pub memory_gib: u64,
    pub system: String,
    pub nginx: String,
    pub openssl: String,
    pub rustc: String,
}

impl Machine {
    pub fn detect() -> Self {
        let (nginx, openssl) = nginx::versions().unwrap_or_else(|_| ("not installed".to_owned(), String::new()));
        let output_of = |program: &str, arguments: &[&str]| {
            let output = Command::new(program).args(arguments).output();
            output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default()
        };
        let field = |path: &str, name: &str| {
            let text = std::fs::read_to_string(path).unwrap_or_default();
            let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_default().to_owned();
            line.split_once(':').map(|(_, value)| value.trim().to_owned()).unwrap_or_default()
        };
        let memory_kib: u64 =
            field("/proc/meminfo", "MemTotal").split(' ').next().and_then(|kib| kib.parse().ok()).unwrap_or(0);
        Self {
            processor: field("/proc/cpuinfo", "model name"),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_gib: memory_kib.div_ceil(1024 * 1024),
            system: format!("{} {}", output_of("uname", &["-s"]), kernel(&output_of("uname", &["-r"]))),
            nginx,
            openssl,
            rustc: output_of("rustc", &["--version"]),
        }
    }

    pub fn describe(&self) -> String {
        let Self { processor, cores, memory_gib, system, nginx, openssl, rustc } = self;
        format!("{processor}, {cores} cores, {memory_gib} GiB, {system}; {nginx} with {openssl}; {rustc}")
    }
}

/// Shortens `6.1.0-18-amd64` to `6.1`.
fn kernel(release: &str) -> String {
    release.split('.').take(2).collect::<Vec<_>>().join(".")
}

#[cfg(test)]
mod tests {
    use super::kernel;

    #[test]
    fn shortens_the_kernel_version_to_two_numbers() {
        assert_eq!(kernel("6.1.0-18-amd64"), "6.1");
        assert_eq!(kernel(""), "");
    }
}
