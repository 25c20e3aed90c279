//! The sample applications, embedded so that the demo needs no other files.

use std::io::Write as _;

/// The files of one package.
#[derive(Debug, Clone, Copy)]
pub struct Sample {
    pub application: &'static str,
    pub version: &'static str,
    pub files: &'static [(&'static str, &'static [u8])],
}

macro_rules! sample {
    ($application:literal, $version:literal) => {
        Sample {
            application: $application,
            version: $version,
            files: &[
                sample!(@file $application, $version, "margo.yaml"),
                sample!(@file $application, $version, "resources/description.md"),
                sample!(@file $application, $version, "resources/icon.svg"),
                sample!(@file $application, $version, "resources/license.txt"),
                sample!(@file $application, $version, "resources/release-notes.md"),
            ],
        }
    };
    (@file $application:literal, $version:literal, $path:literal) => {
        ($path, include_bytes!(concat!("../../../../samples/", $application, "/", $version, "/", $path)) as &[u8])
    };
}

/// Older versions first, in the usual import order.
pub const SAMPLES: &[Sample] = &[
    sample!("line-monitor", "1.0.0"),
    sample!("line-monitor", "1.1.0"),
    sample!("vibration-analytics", "2.3.0"),
    sample!("label-printer-bridge", "0.9.2"),
    sample!("shift-board", "1.0.0"),
];

impl Sample {
    /// The folder as tar.gz for upload.
    pub fn archive(&self) -> std::io::Result<Vec<u8>> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        let mut builder = tar::Builder::new(&mut encoder);
        for (path, bytes) in self.files {
            let mut header = tar::Header::new_ustar();
            header.set_size(bytes.len() as u64);
            header.set_mode(0o644);
            builder.append_data(&mut header, path, *bytes)?;
        }
        builder.finish()?;
        drop(builder);
        encoder.flush()?;
        encoder.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use margo::package::{PackageFile, read};

    #[test]
    fn every_sample_is_a_package_without_findings() {
        for sample in SAMPLES {
            let files: Vec<_> = sample
                .files
                .iter()
                .map(|(path, bytes)| PackageFile { path: (*path).to_owned(), bytes: bytes.to_vec() })
                .collect();
            let package = read(&files).unwrap_or_else(|findings| panic!("{}: {findings:?}", sample.application));
            let description = &package.document.description;
            assert_eq!(description.id.as_str(), sample.application);
            assert_eq!(description.metadata.version, sample.version);
            assert!(description.configuration.is_some(), "{} has no parameters", sample.application);
            assert_eq!(package.document.resources.len(), 4);
            assert!(package.warnings.is_empty(), "{}: {:?}", sample.application, package.warnings);
        }
    }

    #[test]
    fn there_are_four_applications_and_one_of_them_can_be_upgraded() {
        let mut applications: Vec<_> = SAMPLES.iter().map(|sample| sample.application).collect();
        applications.dedup();
        assert_eq!(applications, ["line-monitor", "vibration-analytics", "label-printer-bridge", "shift-board"]);
        assert_eq!(SAMPLES.iter().filter(|sample| sample.application == "line-monitor").count(), 2);
    }
}
