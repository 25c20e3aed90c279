//! Rate-limited images: fetched by the agent, loaded into the engine.

use super::Compose;
use super::project::Image;
use super::socket::SocketError;
use crate::artifacts::images::ImageParts;
use crate::preload::ImageWriter;
use margo::Digest;
use margrave_oci::Reference;
use std::fs::File;
use std::io::Write;

impl Compose {
    /// From this registry; after a failure another one may work.
    pub(super) async fn fetch_and_load(&self, place: &Reference, image: &Image) -> Result<(), SocketError> {
        let local = image.local();
        let fetched = self.artifacts.fetch_image(place, &local).await;
        let parts = fetched.map_err(|error| SocketError::Failed(error.to_string()))?;
        let name = local.clone();
        self.socket.load(move |out| write(&parts, &name, out)).await?;
        self.artifacts.forget_image(&local);
        Ok(())
    }
}

fn write(parts: &ImageParts, name: &str, out: &mut dyn Write) -> std::io::Result<()> {
    let layers: Vec<Digest> = parts.layers.iter().map(|(digest, _)| digest.clone()).collect();
    let mut writer = ImageWriter::new(out, name, &parts.config.0, &layers)?;
    for (digest, path) in parts.layers.iter().chain([&parts.config]) {
        let file = File::open(path)?;
        let size = file.metadata()?.len();
        writer.add(digest, size, file)?;
    }
    writer.finish()
}
