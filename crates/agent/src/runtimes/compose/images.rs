//! Images: pulled by the engine before anything is stopped, from a mirror first where there is one.

use super::project::Image;
use super::socket::{SocketError, query};
use super::{Compose, from_socket};
use crate::machine::io::WorkFailure;
use crate::runtimes::engine::failed;
use margrave_oci::{Reference, Tag};

impl Compose {
    pub(super) async fn has_image(&self, name: &str) -> Result<bool, WorkFailure> {
        match self.socket.get(&format!("/images/{name}/json")).await {
            Ok(_) => Ok(true),
            Err(error) if error.is_missing() => Ok(false),
            Err(error) => Err(from_socket(error)),
        }
    }

    /// Pulls what is not there. An image that is there is enough when its registry is not.
    pub(super) async fn pull(&self, images: &[Image]) -> Result<(), WorkFailure> {
        self.place_authorities()?;
        for image in images {
            let held = self.has_image(&image.name).await?;
            if held && !image.always {
                continue;
            }
            match self.pull_one(image).await {
                Err(error) if held => {
                    tracing::warn!("image `{}` is not pulled again, the one held is used: {error}", image.name);
                }
                other => other?,
            }
        }
        Ok(())
    }

    async fn pull_one(&self, image: &Image) -> Result<(), WorkFailure> {
        let registries = self.artifacts.registries();
        let mut last = None;
        for place in registries.places(&image.reference) {
            let login = registries.login(&place.host).map_err(|error| failed(error.to_string()))?;
            match self.socket.pull(&place.image(), login.as_ref()).await {
                Ok(()) => return self.name(&place, image).await,
                Err(error @ SocketError::Silent { .. }) => return Err(from_socket(error)),
                Err(error) => last = Some(error),
            }
        }
        let reason = last.map(|error| error.to_string()).unwrap_or_default();
        Err(failed(format!("image `{}` cannot be pulled: {reason}", image.name)))
    }

    /// What came from a mirror is known by the name the compose file uses.
    async fn name(&self, place: &Reference, image: &Image) -> Result<(), WorkFailure> {
        if *place == image.reference {
            return Ok(());
        }
        let Tag::Name(tag) = &image.reference.tag else {
            // Docker knows no such name for it; the registry itself must be asked.
            return Err(failed(format!(
                "image `{}` is named by its digest, which cannot come from a mirror; name it by a tag",
                image.name
            )));
        };
        let repository = image.reference.image();
        let repository = repository.strip_suffix(&format!(":{tag}")).unwrap_or(&repository);
        let path = format!("/images/{}/tag?repo={}&tag={}", place.image(), query(repository), query(tag));
        self.socket.post(&path).await.map_err(from_socket)
    }

    /// The engine trusts what it finds in a folder per registry, at every pull.
    fn place_authorities(&self) -> Result<(), WorkFailure> {
        let Some(folder) = &self.certificates else { return Ok(()) };
        for (host, file) in self.artifacts.registries().authorities() {
            let target = folder.join(host).join("ca.crt");
            let place = || {
                let pem = std::fs::read(file)?;
                if std::fs::read(&target).is_ok_and(|held| held == pem) {
                    return Ok(());
                }
                std::fs::create_dir_all(folder.join(host))?;
                std::fs::write(&target, pem)
            };
            place().map_err(|error: std::io::Error| {
                failed(format!("put `{}` to `{}`: {error}", file.display(), target.display()))
            })?;
        }
        Ok(())
    }
}
