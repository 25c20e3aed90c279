//! Executes one copy: package, components, their images, and then the catalog.

mod registries;

use super::job::Job;
use super::mirrored;
use super::transfer::{CopyError, Transfer, clear};
use crate::app::error::AppError;
use crate::catalog::{self, registry::Source};
use crate::registry::hosted::Hosted;
use crate::registry::{Reference as OurReference, RepositoryName};
use crate::state::ServerState;
use margo::description::{ApplicationDescription, ComponentSource, ProfileType};
use margrave_api::copies::{CopiedKind, CopiedState, CopyState};
use margrave_core::model::Actor;
use margrave_oci::build::{COMPOSE_LAYER_TYPE, HELM_CHART_TYPE, MANIFESTS_LAYER_TYPE};
use margrave_oci::images::{self, Found as FoundImages};
use margrave_oci::{Credentials, Descriptor, Manifest, Platform, Reference, Registry, Tag};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// Maximum nesting: an index of indexes.
const INDEX_DEPTH_MAX: usize = 2;
/// Largest archive of a component that is searched for images.
const ARCHIVE_BYTES_MAX: usize = 64 << 20;

/// A copy request.
pub(super) struct Work {
    pub(super) source: Source,
    pub(super) given: CopyRequest,
    pub(super) images: Vec<Reference>,
    pub(super) platforms: Vec<Platform>,
    pub(super) logins: HashMap<String, Option<Credentials>>,
}

/// Connection settings of the caller, for every registry of the copy.
pub(super) struct CopyRequest {
    pub(super) plain_http: bool,
    pub(super) ca: Option<String>,
}

/// Runs a copy to its end and records the result.
pub(super) async fn run(state: ServerState, hosted: Arc<Hosted>, job: Arc<Job>, work: Work, actor: Actor) {
    let stop = job.stop.clone();
    let carried_out = async {
        let _turn = hosted.copies.permits.acquire().await.map_err(|_| "the server is stopping".to_owned())?;
        job.begin();
        let mut worker = Worker::new(&state, &hosted, &job, &actor, work);
        worker.execute_copy().await
    };
    let outcome = tokio::select! {
        outcome = carried_out => outcome.map(|()| None),
        () = stop.cancelled() => Ok(Some(CopyState::Cancelled)),
    };
    // No further requests follow.
    if state.stopping.is_cancelled() {
        return;
    }
    clear(&hosted.registry, &job).await;
    let (end, error) = match outcome {
        Ok(Some(end)) => (end, None),
        Ok(None) if job.is_complete() => (CopyState::Done, None),
        Ok(None) => (CopyState::Incomplete, None),
        Err(error) => (CopyState::Failed, Some(error)),
    };
    let copy = job.show();
    let after = json!({ "state": end, "source": copy.source, "bytesCopied": copy.bytes_copied,
        "bytesPresent": copy.bytes_present, "error": error });
    tracing::info!(copy.id = %job.id(), source = copy.source, state = ?end, error, "copy ended");
    let subject = format!("copy/{}", job.id());
    let recorded = state.store.audit_append(&actor, "registry.copy-end", &subject, Some(after), state.now()).await;
    if let Err(failed) = recorded {
        state.metrics.store_error();
        tracing::error!(error = &failed as &dyn std::error::Error, "cannot record the end of a copy");
    }
    job.end(end, error, state.now());
}

struct Worker<'a> {
    state: &'a ServerState,
    hosted: &'a Hosted,
    job: &'a Arc<Job>,
    actor: &'a Actor,
    work: Work,
    registries: HashMap<String, Registry>,
    /// Unreachable registries, with their last error.
    gone: HashMap<String, String>,
}

/// An error that ends the whole copy, as text.
type Ended<T = ()> = Result<T, String>;

impl<'a> Worker<'a> {
    fn new(state: &'a ServerState, hosted: &'a Hosted, job: &'a Arc<Job>, actor: &'a Actor, work: Work) -> Self {
        Self { state, hosted, job, actor, work, registries: HashMap::new(), gone: HashMap::new() }
    }

    async fn execute_copy(&mut self) -> Ended {
        let reference = self.work.source.reference.clone();
        let used = self.work.source.used.clone();
        let registry = self.registry(&reference.host).await.map_err(words)?;
        let found = catalog::registry::package(registry, &reference, &used).await.map_err(error_text)?;
        catalog::check(self.state, &found, &reference.to_string()).await.map_err(error_text)?;
        let description = found.package.description.clone();
        self.artifact(CopiedKind::Package, &reference, &reference.to_string()).await?;
        if !self.job.is_complete() {
            let message = self.job.show().artifacts.into_iter().find_map(|artifact| artifact.message);
            return Err(message.unwrap_or_else(|| "the package cannot be copied".to_owned()));
        }
        let named = self.components(&description).await?;
        let mut images: BTreeMap<String, Reference> = BTreeMap::new();
        for image in named {
            match Reference::parse_image(&image) {
                Ok(reference) => {
                    images.entry(reference.image()).or_insert(reference);
                }
                Err(problem) => self.job.unknown([format!("`{image}`: {problem}")]),
            }
        }
        for reference in std::mem::take(&mut self.work.images) {
            images.entry(reference.image()).or_insert(reference);
        }
        for (image, reference) in images {
            self.artifact(CopiedKind::Image, &reference, &image).await?;
        }
        catalog::check_components(self.state, &found, Some(&self.work.source)).await;
        let imported = catalog::add_package(self.state, self.actor, None, found, reference.to_string()).await;
        self.job.imported(imported.map_err(error_text)?.application);
        Ok(())
    }

    /// Copies every component; returns the images they refer to.
    async fn components(&mut self, description: &ApplicationDescription) -> Ended<BTreeSet<String>> {
        let mut images = BTreeSet::new();
        let mut done = BTreeSet::new();
        for profile in &description.deployment_profiles {
            for component in &profile.components {
                let name = &component.name;
                let ComponentSource::Oci { repository, revision } = &component.properties.source else {
                    self.job.unknown([format!("component `{name}` is not in a registry and stays where it is")]);
                    continue;
                };
                let text = format!("{repository}:{revision}");
                if !done.insert(text.clone()) {
                    continue;
                }
                let reference = match Reference::parse(&text) {
                    Ok(reference) => reference,
                    Err(problem) => {
                        self.job.unknown([format!("component `{name}`: `{text}` {problem}")]);
                        continue;
                    }
                };
                let Some((repository, manifest)) = self.artifact(CopiedKind::Component, &reference, &text).await?
                else {
                    continue;
                };
                let variables = variables(description, name);
                match self.images(&repository, &manifest, profile.profile_type, &variables).await {
                    Ok(found) => {
                        images.extend(found.images);
                        self.job.unknown(found.unknown.into_iter().map(|text| format!("component `{name}`: {text}")));
                    }
                    Err(problem) => {
                        let text = format!("component `{name}` cannot be searched for images: {problem}");
                        self.job.unknown([text]);
                    }
                }
            }
        }
        Ok(images)
    }

    /// The images of a component in the embedded registry.
    async fn images(
        &self,
        repository: &RepositoryName,
        manifest: &Manifest,
        kind: ProfileType,
        variables: &BTreeMap<String, String>,
    ) -> Result<FoundImages, String> {
        let has = |media_type: &str| manifest.blobs.iter().any(|blob| blob.media_type == media_type);
        let requested = match kind {
            ProfileType::Helm => HELM_CHART_TYPE,
            ProfileType::Compose => COMPOSE_LAYER_TYPE,
            ProfileType::Custom if has(MANIFESTS_LAYER_TYPE) => MANIFESTS_LAYER_TYPE,
            ProfileType::Custom => return Err("custom components cannot be searched".to_owned()),
        };
        let layer = manifest.blobs.iter().find(|blob| blob.media_type == requested);
        let layer = layer.ok_or_else(|| format!("it has no layer of type {requested}"))?;
        if layer.size > ARCHIVE_BYTES_MAX as u64 {
            return Err(format!("it is larger than {ARCHIVE_BYTES_MAX} bytes"));
        }
        let digest = layer.digest.as_str().parse().map_err(|_| "its digest is invalid".to_owned())?;
        let (mut file, size) =
            self.hosted.registry.open_blob(repository, &digest).await.map_err(|error| error.to_string())?;
        let mut archive = Vec::with_capacity(size as usize);
        let read = tokio::io::AsyncReadExt::read_to_end(&mut file, &mut archive).await;
        read.map_err(|error| error.to_string())?;
        let variables = variables.clone();
        let searched = tokio::task::spawn_blocking(move || match kind {
            ProfileType::Helm => images::of_chart(&archive),
            ProfileType::Custom => images::of_manifests(&archive),
            ProfileType::Compose => images::of_compose(&archive, &variables),
        });
        searched.await.unwrap_or_else(|error| Err(error.to_string()))
    }

    /// Copies one artifact and records the result; only errors of the embedded registry end the copy.
    async fn artifact(
        &mut self,
        kind: CopiedKind,
        reference: &Reference,
        shown: &str,
    ) -> Ended<Option<(RepositoryName, Manifest)>> {
        let repository = mirrored(reference);
        let named = repository.as_ref().ok().map(ToString::to_string);
        let index = self.job.add(kind, shown.to_owned(), named);
        self.job.update(index, |artifact| artifact.state = CopiedState::Copying);
        let done = match (repository, self.gone.get(&reference.host)) {
            (Err(problem), _) => Err(CopyError::Source(problem)),
            (_, Some(heard)) => Err(CopyError::Source(heard.clone())),
            (Ok(repository), None) => {
                let copied = self.copy(index, reference, &repository).await;
                copied.map(|manifest| (repository, manifest))
            }
        };
        let (state, message) = match &done {
            Ok(_) => (None, None),
            Err(CopyError::NotFound(message)) => (Some(CopiedState::NotFound), Some(message)),
            Err(CopyError::Source(message) | CopyError::Ours(message) | CopyError::Gone(message)) => {
                (Some(CopiedState::Failed), Some(message))
            }
        };
        self.job.update(index, |artifact| {
            let copied = if artifact.bytes_copied > 0 { CopiedState::Copied } else { CopiedState::Present };
            // A new name for existing content is a change as well.
            let copied = if artifact.state == CopiedState::Copied { CopiedState::Copied } else { copied };
            artifact.state = state.unwrap_or(copied);
            artifact.message = message.cloned();
        });
        match done {
            Ok(done) => Ok(Some(done)),
            Err(CopyError::Ours(message)) => Err(message),
            Err(CopyError::Gone(message)) => {
                self.gone.insert(reference.host.clone(), message);
                Ok(None)
            }
            Err(_) => Ok(None),
        }
    }

    async fn copy(
        &mut self,
        index: usize,
        reference: &Reference,
        repository: &RepositoryName,
    ) -> Result<Manifest, CopyError> {
        let (state, actor, job) = (self.state, self.actor, self.job);
        let ours = &self.hosted.registry;
        let platforms = std::mem::take(&mut self.work.platforms);
        let copied = async {
            let theirs = self.registry(&reference.host).await?;
            let transfer = Transfer { ours, repository, job, index };
            manifest(theirs, &transfer, reference, &platforms, 0).await
        };
        let copied = copied.await;
        self.work.platforms = platforms;
        let (read, digest, news) = copied?;
        self.job.update(index, |artifact| {
            artifact.digest = Some(digest.to_string());
            if news {
                artifact.state = CopiedState::Copied;
            }
        });
        if news {
            let after = json!({ "reference": reference.tag.to_string(), "digest": digest.to_string(),
                "source": reference.image(), "copy": job.id() });
            let subject = format!("repository/{repository}");
            let recorded = state.store.audit_append(actor, "registry.push", &subject, Some(after), state.now()).await;
            recorded.map_err(|error| {
                state.metrics.store_error();
                tracing::error!(error = &error as &dyn std::error::Error, "cannot record a change of the registry");
                CopyError::Ours(
                    "the change cannot be recorded in the audit log now, so it was not made; try again".to_owned(),
                )
            })?;
        }
        Ok(read)
    }
}

/// Copies a manifest and everything it refers to; returns whether the registry changed.
async fn manifest(
    theirs: &mut Registry,
    transfer: &Transfer<'_>,
    reference: &Reference,
    platforms: &[Platform],
    depth: usize,
) -> Result<(Manifest, crate::registry::Digest, bool), CopyError> {
    let fetched = theirs.manifest(reference).await?;
    let read = Manifest::read(fetched.media_type.as_deref(), &fetched.bytes)
        .map_err(|problem| CopyError::Source(format!("the manifest of `{reference}` {problem}")))?;
    for blob in &read.blobs {
        transfer.blob(theirs, &reference.repository, blob).await?;
    }
    if read.is_index() {
        if depth >= INDEX_DEPTH_MAX {
            return Err(CopyError::Source(format!("`{reference}` is nested too deeply")));
        }
        for child in chosen(&read, platforms, reference)? {
            let child = Reference { tag: Tag::Digest(child.digest.clone()), ..reference.clone() };
            Box::pin(manifest(theirs, transfer, &child, platforms, depth + 1)).await?;
        }
        let taken = chosen(&read, platforms, reference)?;
        let names = taken.iter().filter_map(|child| child.platform.as_ref()).map(ToString::to_string).collect();
        transfer.job.update(transfer.index, |artifact| artifact.platforms = names);
    }
    let at = match &reference.tag {
        Tag::Name(tag) => tag.clone(),
        Tag::Digest(digest) => digest.to_string(),
    };
    let at: OurReference = at.parse().map_err(|error| CopyError::Source(format!("{error}")))?;
    let before = transfer.ours.stat_manifest(transfer.repository, &at).ok().map(|(digest, ..)| digest);
    let size = fetched.bytes.len() as u64;
    // Part of an index is enough: it stays unchanged byte for byte, and so does its digest.
    let put = transfer.ours.put_partly(transfer.repository, &at, Some(&read.media_type), fetched.bytes.into()).await?;
    let news = before.as_ref() != Some(&put.digest);
    if news {
        transfer.job.copied(transfer.index, size);
    } else {
        transfer.job.present(transfer.index, size);
    }
    Ok((read, put.digest, news))
}

/// The requested part of an index.
fn chosen<'m>(
    index: &'m Manifest,
    platforms: &[Platform],
    reference: &Reference,
) -> Result<Vec<&'m Descriptor>, CopyError> {
    if platforms.is_empty() {
        return Ok(index.manifests.iter().collect());
    }
    let requested = |child: &&Descriptor| {
        child.platform.as_ref().is_some_and(|offered| platforms.iter().any(|platform| platform.matches(offered)))
    };
    let found: Vec<&Descriptor> = index.manifests.iter().filter(requested).collect();
    if found.is_empty() {
        let offered: BTreeSet<String> =
            index.manifests.iter().filter_map(|child| child.platform.as_ref()).map(ToString::to_string).collect();
        let offered = offered.into_iter().collect::<Vec<_>>().join(", ");
        let message = format!("`{reference}` has no image for the requested platforms; it has {offered}");
        return Err(CopyError::NotFound(message));
    }
    Ok(found)
}

/// The variables of an application for a compose component, with the supplier's defaults.
fn variables(description: &ApplicationDescription, component: &str) -> BTreeMap<String, String> {
    let mut variables = BTreeMap::new();
    for parameter in description.parameters.values() {
        let Some(value) = &parameter.value else { continue };
        for target in parameter.targets.iter().filter(|target| target.components.iter().any(|name| name == component)) {
            let name = target.pointer.strip_prefix("ENV.").unwrap_or(&target.pointer);
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            variables.insert(name.to_owned(), text);
        }
    }
    variables
}

/// For the operator; internal errors are logged instead.
fn error_text(error: AppError) -> String {
    match &error {
        AppError::Refused { errors, .. } => {
            let list: Vec<String> = errors.iter().map(|error| format!("{}: {}", error.field, error.message)).collect();
            if list.is_empty() { error.to_string() } else { format!("{error} ({})", list.join("; ")) }
        }
        other => {
            tracing::error!(error = other as &dyn std::error::Error, "copy failed");
            "the server failed; see its log".to_owned()
        }
    }
}

fn words(trouble: CopyError) -> String {
    match trouble {
        CopyError::NotFound(text) | CopyError::Source(text) | CopyError::Gone(text) | CopyError::Ours(text) => text,
    }
}
