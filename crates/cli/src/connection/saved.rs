//! The saved login: a file readable only by its owner.

use crate::failure::{Failure, Outcome};
use std::fmt;
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

#[derive(Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Saved {
    pub(crate) url: String,
    pub(crate) token: String,
    /// PEM content, so that the original file can be moved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ca: Option<String>,
}

/// Without the token.
impl fmt::Debug for Saved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Saved").field("url", &self.url).field("ca", &self.ca).finish_non_exhaustive()
    }
}

/// `$XDG_CONFIG_HOME/margrave/login.toml`, by default below `~/.config`.
pub(crate) fn path() -> Option<PathBuf> {
    let folder = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let base = folder("XDG_CONFIG_HOME").or_else(|| folder("HOME").map(|home| home.join(".config")))?;
    Some(base.join("margrave").join("login.toml"))
}

pub(crate) fn load(path: &Path) -> Outcome<Option<Saved>> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => {
            return Err(Failure::usage(format!("read the saved login `{}`", path.display())).caused_by(&error));
        }
    };
    toml::from_str(&text).map(Some).map_err(|error| {
        Failure::usage(format!("read the saved login `{}`", path.display()))
            .because(error.message().to_owned())
            .next("log in again with `margrave login`")
    })
}

/// Written to a temporary file and renamed, so that readers never see a partial file; mode 0600 from the first byte.
pub(crate) fn store(path: &Path, saved: &Saved) -> Outcome {
    let attempt =
        |error: std::io::Error| Failure::failed(format!("save the login in `{}`", path.display())).caused_by(&error);
    let folder = path.parent().expect("the path names a file in a folder");
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(attempt)?;
    let text = toml::to_string(saved).map_err(|error| Failure::failed("write the login as TOML").caused_by(&error))?;
    let temporary = path.with_extension("toml.new");
    let _ = std::fs::remove_file(&temporary);
    let mut file =
        std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary).map_err(attempt)?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(attempt)?;
    std::fs::rename(&temporary, path).map_err(attempt)
}

pub(crate) fn forget(path: &Path) -> Outcome<bool> {
    match std::fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(Failure::failed(format!("remove the saved login `{}`", path.display())).caused_by(&error)),
    }
}
