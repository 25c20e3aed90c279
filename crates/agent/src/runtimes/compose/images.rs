//! Images: pulled by the engine before anything stops, from a mirror first if there is one.
//!
//! An engine knows an image digest only under the repository it was pulled from. To pull an image with a digest from a
//! mirror, the agent gives it a local name made of the digest, and containers use that name.

use super::project::Image;
use super::socket::{SocketError, query};
use super::{Compose, from_socket};
use crate::machine::io::WorkFailure;
use crate::runtimes::engine::failed;
use margo::Digest;
use margrave_oci::{Reference, Tag};
use serde_json::Value;
use std::collections::HashSet;

/// The local name of an image that cannot have the name in the compose file.
pub(super) fn own_name(reference: &Reference) -> Option<Reference> {
    let Tag::Digest(digest) = &reference.tag else { return None };
    Some(Reference { tag: Tag::Name(format!("sha256-{}", digest.hex())), ..reference.clone() })
}

impl Image {
    /// Its name in the engine.
    pub(super) fn local(&self) -> String {
        own_name(&self.reference).map_or_else(|| self.name.clone(), |own| own.image())
    }

    fn digest(&self) -> Option<&Digest> {
        match &self.reference.tag {
            Tag::Digest(digest) => Some(digest),
            Tag::Name(_) => None,
        }
    }
}

impl Compose {
    async fn inspect(&self, name: &str) -> Result<Option<Value>, WorkFailure> {
        match self.socket.get(&format!("/images/{name}/json")).await {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.is_missing() => Ok(None),
            Err(error) => Err(from_socket(error)),
        }
    }

    /// Whether the engine has it under the name containers use; an image with a digest must have this digest.
    async fn is_named(&self, image: &Image) -> Result<bool, WorkFailure> {
        let local = image.local();
        let found = self.inspect(&local).await?;
        let Some(digest) = image.digest() else { return Ok(found.is_some()) };
        Ok(found.is_some_and(|found| {
            let id = found["Id"].as_str().unwrap_or_default();
            is_pulled_as(&found, digest) || self.collection.has_pulled(&local, id)
        }))
    }

    /// Whether the engine has it under any name.
    pub(super) async fn has_image(&self, image: &Image) -> Result<bool, WorkFailure> {
        let named = self.is_named(image).await?;
        Ok(named || image.digest().is_some() && self.inspect(&image.name).await?.is_some())
    }

    /// Pulls missing images. An existing image is sufficient if its registry is unreachable.
    pub(super) async fn pull(&self, images: &[Image]) -> Result<(), WorkFailure> {
        self.install_authorities()?;
        for image in images {
            let held = self.has_image(image).await?;
            if held && image.digest().is_some() {
                if !self.is_named(image).await? {
                    self.name(&image.reference, image).await?;
                }
                continue;
            }
            if held && !image.always {
                continue;
            }
            match self.pull_one(image, held).await {
                Err(error) if held => {
                    tracing::warn!("could not pull image `{}` again, using the local one: {error}", image.name);
                }
                other => other?,
            }
        }
        Ok(())
    }

    async fn pull_one(&self, image: &Image, held: bool) -> Result<(), WorkFailure> {
        let registries = self.artifacts.registries();
        let local = image.local();
        // An image that others pulled is never ours, even if its tag moves.
        let ours = !held || self.collection.is_ours(&local);
        let before = self.ids().await?;
        if !held && self.preloaded_first(image, &before).await? {
            return Ok(());
        }
        let mut last = None;
        for place in registries.places(&image.reference) {
            let login = registries.login(&place.host).map_err(|error| failed(error.to_string()))?;
            if ours {
                self.collection.begin(&local, &place.image()).map_err(|error| failed(error.chain()))?;
            }
            // With a rate limit the agent fetches the image: the engine has no limit.
            let paced = self.artifacts.is_rate_limited() && ours;
            let pulled = if paced {
                self.fetch_and_load(&place, image).await
            } else {
                self.socket.pull(&place.image(), login.as_ref()).await
            };
            match pulled {
                Ok(()) => {
                    if !paced {
                        self.name(&place, image).await?;
                    }
                    return if ours { self.brought(&local, &before).await } else { Ok(()) };
                }
                Err(error @ SocketError::Unreachable { .. }) => return Err(from_socket(error)),
                Err(error) => last = Some(error),
            }
        }
        self.collection.give_up(&local).map_err(|error| failed(error.chain()))?;
        let reason = last.map(|error| error.to_string()).unwrap_or_default();
        Err(failed(format!("image `{}` cannot be pulled: {reason}", image.name)))
    }

    /// Preloaded images need no registry.
    async fn preloaded_first(&self, image: &Image, before: &HashSet<String>) -> Result<bool, WorkFailure> {
        let local = image.local();
        let started = self.collection.is_ours(&local);
        if !self.load_preloaded(image).await? {
            return Ok(false);
        }
        // An image that was being loaded when the agent stopped is ours.
        let nothing = HashSet::new();
        self.brought(&local, if started { &nothing } else { before }).await?;
        Ok(true)
    }

    async fn brought(&self, local: &str, before: &HashSet<String>) -> Result<(), WorkFailure> {
        let found = self.inspect(local).await?;
        let Some(id) = found.as_ref().and_then(|found| found["Id"].as_str()) else {
            return Err(failed(format!("image `{local}` was pulled, but the engine does not have it")));
        };
        self.collection.end(local, id, before.contains(id)).map_err(|error| failed(error.chain()))
    }

    /// Every image the engine has.
    async fn ids(&self) -> Result<HashSet<String>, WorkFailure> {
        let listed = self.socket.get("/images/json").await.map_err(from_socket)?;
        let ids = listed.as_array().into_iter().flatten().filter_map(|image| image["Id"].as_str());
        Ok(ids.map(str::to_owned).collect())
    }

    /// Tags an image from a mirror with the name that containers use.
    async fn name(&self, place: &Reference, image: &Image) -> Result<(), WorkFailure> {
        let own = own_name(&image.reference).unwrap_or_else(|| image.reference.clone());
        let (false, Tag::Name(tag)) = (*place == own, &own.tag) else { return Ok(()) };
        let repository = own.image();
        let repository = repository.strip_suffix(&format!(":{tag}")).unwrap_or(&repository);
        let path = format!("/images/{}/tag?repo={}&tag={}", place.image(), query(repository), query(tag));
        self.socket.post(&path).await.map_err(from_socket)
    }

    /// The engine reads certificate authorities from a folder per registry at every pull.
    fn install_authorities(&self) -> Result<(), WorkFailure> {
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
                failed(format!("copy `{}` to `{}`: {error}", file.display(), target.display()))
            })?;
        }
        Ok(())
    }
}

/// The engine verified this digest when it pulled the image, from any registry.
fn is_pulled_as(inspected: &Value, digest: &Digest) -> bool {
    let suffix = format!("@{digest}");
    let digests = inspected["RepoDigests"].as_array().into_iter().flatten();
    digests.filter_map(Value::as_str).any(|known| known.ends_with(&suffix))
}
