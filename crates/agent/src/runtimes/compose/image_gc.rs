//! Garbage collection of the images that this agent pulled.
//!
//! An image counts as ours if it did not exist before it was pulled for a component. It is kept while the next, the
//! current or the previous revision of a component needs it, and while any container uses it.

use super::Compose;
use super::socket::SocketError;
use crate::disk::{DiskError, read_record, write_record};
use margo::Digest;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

const FILE: &str = "images.json";

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ImageRecord {
    brought: Vec<PulledImage>,
    needs: Vec<Need>,
}

/// An image that this agent pulled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PulledImage {
    /// The name in containers.
    name: String,
    /// The name it was pulled by: different if it came from a mirror.
    from: String,
    /// Unknown until the pull has finished.
    id: Option<String>,
}

/// Names of the images one project needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Need {
    project: String,
    next: Option<Slot>,
    running: Option<Slot>,
    previous: Option<Slot>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Slot {
    /// Of the deployment YAML.
    document: Digest,
    images: Vec<String>,
}

impl ImageRecord {
    fn need(&mut self, project: &str) -> &mut Need {
        let at = self.needs.iter().position(|need| need.project == project).unwrap_or_else(|| {
            self.needs.push(Need { project: project.to_owned(), next: None, running: None, previous: None });
            self.needs.len() - 1
        });
        &mut self.needs[at]
    }

    fn is_needed(&self, name: &str) -> bool {
        let slots = self.needs.iter().flat_map(|need| [&need.next, &need.running, &need.previous]);
        slots.flatten().any(|slot| slot.images.iter().any(|image| image == name))
    }

    fn brought(&self, name: &str) -> Option<&PulledImage> {
        self.brought.iter().find(|brought| brought.name == name)
    }
}

/// The durable record, written before every pull and removal.
#[derive(Debug)]
pub(super) struct PulledImages {
    path: PathBuf,
    book: Mutex<ImageRecord>,
}

impl PulledImages {
    /// In `folder/images.json`. A lost record only costs disk space: images that are not in it are never removed.
    pub(super) fn open(folder: &Path) -> Self {
        let path = folder.join(FILE);
        let book = read_record(&path, &mut |_| {}).unwrap_or_default();
        Self { path, book: Mutex::new(book) }
    }

    fn book(&self) -> MutexGuard<'_, ImageRecord> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut ImageRecord)) -> Result<(), DiskError> {
        let mut book = self.book();
        let mut next = book.clone();
        change(&mut next);
        if next != *book {
            if let Some(folder) = self.path.parent() {
                crate::disk::create_private_dir(folder).map_err(|error| DiskError::at(folder, error))?;
            }
            write_record(&self.path, &next)?;
            *book = next;
        }
        Ok(())
    }

    /// A document is about to be applied: keep its images.
    pub(super) fn note(&self, project: &str, document: &Digest, images: Vec<String>) -> Result<(), DiskError> {
        let slot = Slot { document: document.clone(), images };
        self.change(|book| {
            let need = book.need(project);
            need.next = (need.running.as_ref() != Some(&slot)).then_some(slot);
        })
    }

    /// The document was applied: keep the previous images for a rollback.
    pub(super) fn settle(&self, project: &str, document: &Digest) -> Result<(), DiskError> {
        self.change(|book| {
            let need = book.need(project);
            let Some(next) = need.next.take_if(|next| next.document == *document) else { return };
            match need.running.replace(next) {
                Some(before) if before.document != *document => need.previous = Some(before),
                _ => {}
            }
        })
    }

    pub(super) fn forget(&self, project: &str) -> Result<(), DiskError> {
        self.change(|book| book.needs.retain(|need| need.project != project))
    }

    /// A missing image is about to be pulled.
    pub(super) fn begin(&self, name: &str, from: &str) -> Result<(), DiskError> {
        let fresh = PulledImage { name: name.to_owned(), from: from.to_owned(), id: None };
        self.change(|book| match book.brought.iter_mut().find(|known| known.name == name) {
            Some(known) => *known = PulledImage { id: known.id.take(), ..fresh },
            None => book.brought.push(fresh),
        })
    }

    /// The pull has finished. `was_there`: the engine had this image already, under another name.
    pub(super) fn end(&self, name: &str, id: &str, was_there: bool) -> Result<(), DiskError> {
        self.change(|book| {
            let known_as_ours = book.brought.iter().any(|brought| brought.id.as_deref() == Some(id));
            let Some(at) = book.brought.iter().position(|brought| brought.name == name) else { return };
            if was_there && !known_as_ours {
                book.brought.remove(at);
                return;
            }
            let before = book.brought[at].id.replace(id.to_owned());
            // A moved tag leaves its previous image untagged.
            if let Some(before) = before.filter(|before| before != id) {
                book.brought.push(PulledImage { name: before.clone(), from: before.clone(), id: Some(before) });
            }
        })
    }

    /// The pull failed: an image that appears later is not ours.
    pub(super) fn give_up(&self, name: &str) -> Result<(), DiskError> {
        self.change(|book| book.brought.retain(|brought| brought.name != name || brought.id.is_some()))
    }

    /// Whether this agent pulled this image under this name.
    pub(super) fn has_pulled(&self, name: &str, id: &str) -> bool {
        self.book().brought(name).is_some_and(|brought| brought.id.as_deref() == Some(id))
    }

    pub(super) fn is_ours(&self, name: &str) -> bool {
        self.book().brought(name).is_some()
    }

    fn needed(&self) -> Vec<String> {
        let book = self.book();
        let slots = book.needs.iter().flat_map(|need| [&need.next, &need.running, &need.previous]);
        slots.flatten().flat_map(|slot| slot.images.iter().cloned()).collect()
    }

    fn unneeded(&self) -> Vec<PulledImage> {
        let book = self.book();
        book.brought.iter().filter(|brought| !book.is_needed(&brought.name)).cloned().collect()
    }

    fn gone(&self, name: &str) -> Result<(), DiskError> {
        self.change(|book| book.brought.retain(|brought| brought.name != name))
    }
}

impl Compose {
    /// Removes unused images that this agent pulled. A failure leaves an unused image, which is harmless.
    pub(super) async fn collect_images(&self) {
        let needed = self.collection.needed();
        self.artifacts.keep_images(needed.iter().map(String::as_str));
        let unneeded = self.collection.unneeded();
        if unneeded.is_empty() {
            return;
        }
        let Ok(containers) = self.socket.get("/containers/json?all=1").await else { return };
        let containers = containers.as_array().map(Vec::as_slice).unwrap_or_default();
        for brought in unneeded {
            if let Err(error) = self.collect_one(&brought, containers).await {
                tracing::debug!("image `{}` is not removed yet: {error}", brought.name);
            }
        }
    }

    async fn collect_one(&self, brought: &PulledImage, containers: &[Value]) -> Result<(), SocketError> {
        let found = match self.socket.get(&format!("/images/{}/json", brought.name)).await {
            Err(error) if error.is_missing() => None,
            other => Some(other?),
        };
        let id = found.as_ref().and_then(|found| found["Id"].as_str());
        let moved = brought.id.is_some() && id.is_some() && brought.id.as_deref() != id;
        if let Some(id) = id.filter(|_| !moved) {
            if containers.iter().any(|container| container["ImageID"] == id) {
                return Ok(());
            }
            for name in [&brought.name, &brought.from] {
                // Without force: the engine rejects the removal of used images.
                match self.socket.delete(&format!("/images/{name}")).await {
                    Err(error) if !error.is_missing() => return Err(error),
                    _ => {}
                }
            }
            tracing::info!("removed image `{}`: no revision needs it", brought.name);
        }
        // Gone, or the tag moved to an image that is not ours.
        self.collection.gone(&brought.name).map_err(|error| SocketError::Failed(error.chain()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(unneeded: &[PulledImage]) -> Vec<&str> {
        unneeded.iter().map(|brought| brought.name.as_str()).collect()
    }

    #[test]
    fn images_of_the_running_and_the_previous_revision_are_kept_across_restarts() {
        let folder = tempfile::tempdir().unwrap();
        let collection = PulledImages::open(folder.path());
        for revision in ["1", "2", "3"] {
            let (image, document) = (format!("a.example/web:{revision}"), Digest::of(revision.as_bytes()));
            collection.note("web", &document, vec![image.clone()]).unwrap();
            collection.begin(&image, &image).unwrap();
            collection.end(&image, &format!("sha256:{revision}"), false).unwrap();
            assert!(names(&collection.unneeded()).is_empty(), "images of the next revision are kept");
            collection.settle("web", &document).unwrap();
        }
        let collection = PulledImages::open(folder.path());
        assert_eq!(names(&collection.unneeded()), ["a.example/web:1"]);
        collection.gone("a.example/web:1").unwrap();
        collection.forget("web").unwrap();
        assert_eq!(names(&collection.unneeded()), ["a.example/web:2", "a.example/web:3"]);
    }

    #[test]
    fn existing_images_are_not_ours_and_untagged_ones_stay_ours() {
        let folder = tempfile::tempdir().unwrap();
        let collection = PulledImages::open(folder.path());
        collection.begin("a:1", "a:1").unwrap();
        collection.end("a:1", "sha256:1", true).unwrap();
        assert!(!collection.is_ours("a:1"));
        collection.begin("c:1", "c:1").unwrap();
        collection.give_up("c:1").unwrap();
        assert!(!collection.is_ours("c:1"), "its pull failed");
        for id in ["sha256:2", "sha256:3"] {
            collection.begin("b:latest", "mirror/b:latest").unwrap();
            collection.end("b:latest", id, false).unwrap();
        }
        assert!(collection.has_pulled("b:latest", "sha256:3") && !collection.has_pulled("b:latest", "sha256:2"));
        assert!(collection.is_ours("sha256:2"), "untagged now, and still ours");
    }
}
