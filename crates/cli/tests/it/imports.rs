//! Operator commands use only the public API; a few other commands depend on the server or the agent.

use std::path::{Path, PathBuf};

fn sources(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, files);
        } else {
            files.push(path);
        }
    }
}

#[test]
fn only_a_few_commands_use_more_than_the_public_api() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    assert!(files.len() > 20, "the sources were not found");
    for file in files {
        let name = file.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
        let text = std::fs::read_to_string(&file).unwrap();
        for inner in ["margrave_server", "margrave_store", "margrave_sim", "margrave_agent"] {
            let allowed =
                matches!(name.as_str(), "serve.rs" | "demo.rs" | "config.rs" | "offline.rs" | "shell.rs" | "sim.rs");
            assert!(allowed || !text.contains(inner), "{name} uses {inner}");
        }
    }
}
