//! Vendor, model and serial number of this machine, from its firmware.

use std::path::Path;

/// The standard requires a text; our server shows nothing for this one.
pub(super) const UNKNOWN: &str = "unknown";

/// Placeholders that vendors leave in their firmware.
const PLACEHOLDERS: &[&str] = &[
    "unknown",
    "none",
    "n/a",
    "not specified",
    "not applicable",
    "default string",
    "to be filled by o.e.m.",
    "o.e.m.",
    "oem",
    "system manufacturer",
    "system product name",
    "system serial number",
    "type1productconfigid",
    "undefined",
    "0",
];

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Hardware {
    pub(super) vendor: String,
    pub(super) model: String,
    pub(super) serial: String,
}

impl Hardware {
    /// Of the machine whose file system begins at `root`: firmware tables on PCs, the device tree on boards.
    pub(super) fn of(root: &Path) -> Self {
        let line = |path: &str| {
            let text = std::fs::read(root.join(path)).ok()?;
            // Device tree strings end with a zero byte, and one file may contain several.
            let text = text.split(|byte| matches!(byte, 0 | b'\n')).next()?;
            let line = String::from_utf8_lossy(text).trim().to_owned();
            let blank = line.is_empty() || PLACEHOLDERS.contains(&line.to_ascii_lowercase().as_str());
            (!blank).then_some(line)
        };
        let first = |paths: &[&str]| paths.iter().find_map(|path| line(path));
        // `raspberrypi,4-model-b`: the vendor of the board comes first.
        let board = || Some(line("proc/device-tree/compatible")?.split_once(',')?.0.to_owned());
        let known = |found: Option<String>| found.unwrap_or_else(|| UNKNOWN.to_owned());
        Self {
            vendor: known(first(&["sys/class/dmi/id/sys_vendor", "sys/class/dmi/id/board_vendor"]).or_else(board)),
            model: known(first(&[
                "sys/class/dmi/id/product_name",
                "sys/class/dmi/id/board_name",
                "proc/device-tree/model",
            ])),
            serial: known(first(&[
                "sys/class/dmi/id/product_serial",
                "proc/device-tree/serial-number",
                "etc/machine-id",
            ])),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(files: &[(&str, &str)], expected: [&str; 3]) {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let Hardware { vendor, model, serial } = Hardware::of(root.path());
        assert_eq!([vendor.as_str(), &model, &serial], expected);
    }

    #[test]
    fn identifies_a_pc_by_its_firmware() {
        machine(
            &[
                ("sys/class/dmi/id/sys_vendor", "Example Edge Works\n"),
                ("sys/class/dmi/id/product_name", "Box PC 427\n"),
                ("sys/class/dmi/id/product_serial", "EEW-7\n"),
            ],
            ["Example Edge Works", "Box PC 427", "EEW-7"],
        );
    }

    #[test]
    fn falls_back_to_the_mainboard_for_placeholders() {
        machine(
            &[
                ("sys/class/dmi/id/sys_vendor", "To Be Filled By O.E.M.\n"),
                ("sys/class/dmi/id/product_name", "System Product Name\n"),
                ("sys/class/dmi/id/product_serial", "Default string\n"),
                ("sys/class/dmi/id/board_vendor", "Example Boards\n"),
                ("sys/class/dmi/id/board_name", "EB-1\n"),
                ("etc/machine-id", "0123456789abcdef\n"),
            ],
            ["Example Boards", "EB-1", "0123456789abcdef"],
        );
    }

    #[test]
    fn identifies_a_board_by_its_device_tree() {
        machine(
            &[
                ("proc/device-tree/model", "Raspberry Pi 4 Model B Rev 1.4\0"),
                ("proc/device-tree/compatible", "raspberrypi,4-model-b\0brcm,bcm2711\0"),
                ("proc/device-tree/serial-number", "100000003f2a\0"),
            ],
            ["raspberrypi", "Raspberry Pi 4 Model B Rev 1.4", "100000003f2a"],
        );
    }

    #[test]
    fn reports_unknown_without_firmware_data() {
        machine(&[], [UNKNOWN; 3]);
    }
}
