//! Images of a preloaded desired state: loaded into the engine when a component needs them.

use super::project::Image;
use super::{Compose, from_socket};
use crate::disk::{DiskError, create_private_dir, read_record, write_record};
use crate::machine::io::WorkFailure;
use crate::preload::{Preload, image_archive};
use crate::runtimes::engine::failed;
use margrave_core::preload::Image as Listed;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

const FILE: &str = "preloaded.json";

/// The images that the manager signed, and their file.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Record {
    file: PathBuf,
    images: Vec<Listed>,
}

#[derive(Debug)]
pub(super) struct PreloadedImages {
    path: PathBuf,
}

impl PreloadedImages {
    /// Stores its record in `folder`.
    pub(super) fn new(folder: &Path) -> Self {
        Self { path: folder.join(FILE) }
    }

    pub(super) fn keep(&self, preload: &Preload) -> Result<(), DiskError> {
        if preload.images.is_empty() {
            return Ok(());
        }
        if let Some(folder) = self.path.parent() {
            create_private_dir(folder).map_err(|error| DiskError::at(folder, error))?;
        }
        write_record(&self.path, &Record { file: preload.file.clone(), images: preload.images.clone() })
    }

    fn find(&self, name: &str) -> Option<(PathBuf, Listed)> {
        let Record { file, images } = read_record(&self.path, &mut |_| {})?;
        let image = images.into_iter().find(|image| image.name == name)?;
        file.is_file().then_some((file, image))
    }
}

impl Compose {
    /// Loads a preloaded image into the engine; returns whether there was one.
    pub(super) async fn load_preloaded(&self, image: &Image) -> Result<bool, WorkFailure> {
        let Some((file, listed)) = self.preloaded.find(&image.name) else { return Ok(false) };
        let local = image.local();
        self.collection.begin(&local, &local).map_err(|error| failed(error.chain()))?;
        let name = local.clone();
        let write = move |out: &mut dyn std::io::Write| image_archive(&file, &listed, &name, out);
        match self.socket.load(write).await {
            Ok(()) => Ok(true),
            Err(error @ super::SocketError::Unreachable { .. }) => Err(from_socket(error)),
            // The registry may have it.
            Err(error) => {
                tracing::warn!("the preloaded image `{local}` cannot be used: {error}");
                Ok(false)
            }
        }
    }
}
