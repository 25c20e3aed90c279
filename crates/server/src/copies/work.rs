//! Carrying out one copy: package, components, the images they name, and then the catalog.

mod registries;

use super::job::Job;
use super::mirrored;
use super::transfer::{Transfer, Trouble, clear};
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

/// An index of indexes is as deep as it gets.
const INDEX_DEPTH_MAX: usize = 2;
/// The largest archive of a component that is looked into for images.
const ARCHIVE_BYTES_MAX: usize = 64 << 20;

/// What a copy is asked to do.
pub(super) struct Work {
    pub(super) source: Source,
    pub(super) given: Given,
    pub(super) images: Vec<Reference>,
    pub(super) platforms: Vec<Platform>,
    pub(super) logins: HashMap<String, Option<Credentials>>,
}

/// What the caller said about connections, which is for every registry of the copy.
pub(super) struct Given {
    pub(super) plain_http: bool,
    pub(super) ca: Option<String>,
}

/// Runs a copy to its end, whatever that is, and writes it down.
pub(super) async fn run(state: ServerState, hosted: Arc<Hosted>, job: Arc<Job>, work: Work, actor: Actor) {
    let stop = job.stop.clone();
    let carried_out = async {
        let _turn = hosted.copies.turns.acquire().await.map_err(|_| "the server is stopping".to_owned())?;
        job.begin();
        let mut worker = Worker::new(&state, &hosted, &job, &actor, work);
        worker.carry_out().await
    };
    let outcome = tokio::select! {
        outcome = carried_out => outcome.map(|()| None),
        () = stop.cancelled() => Ok(Some(CopyState::Cancelled)),
    };
    // Nobody will ask any more.
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
    tracing::info!(copy.id = %job.id(), source = copy.source, state = ?end, error, "a copy has ended");
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
    /// Registries that have gone, with what was heard last.
    gone: HashMap<String, String>,
}

/// An error that ends the whole copy, in words.
type Ended<T = ()> = Result<T, String>;

impl<'a> Worker<'a> {
    fn new(state: &'a ServerState, hosted: &'a Hosted, job: &'a Arc<Job>, actor: &'a Actor, work: Work) -> Self {
        Self { state, hosted, job, actor, work, registries: HashMap::new(), gone: HashMap::new() }
    }

    async fn carry_out(&mut self) -> Ended {
        let reference = self.work.source.reference.clone();
        let used = self.work.source.used.clone();
        let registry = self.registry(&reference.host).await.map_err(words)?;
        let found = catalog::registry::package(registry, &reference, &used).await.map_err(told)?;
        catalog::check(self.state, &found, &reference.to_string()).await.map_err(told)?;
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
        catalog::ask_for_components(self.state, &found, Some(&self.work.source)).await;
        let imported = catalog::add_found(self.state, self.actor, None, found, reference.to_string()).await;
        self.job.imported(imported.map_err(told)?.application);
        Ok(())
    }

    /// Copies every component; says which images they name.
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

    /// The images that a component which is here names.
    async fn images(
        &self,
        repository: &RepositoryName,
        manifest: &Manifest,
        kind: ProfileType,
        variables: &BTreeMap<String, String>,
    ) -> Result<FoundImages, String> {
        let has = |media_type: &str| manifest.blobs.iter().any(|blob| blob.media_type == media_type);
        let wanted = match kind {
            ProfileType::Helm => HELM_CHART_TYPE,
            ProfileType::Compose => COMPOSE_LAYER_TYPE,
            ProfileType::Custom if has(MANIFESTS_LAYER_TYPE) => MANIFESTS_LAYER_TYPE,
            ProfileType::Custom => return Err("it is of a kind only devices know".to_owned()),
        };
        let layer = manifest.blobs.iter().find(|blob| blob.media_type == wanted);
        let layer = layer.ok_or_else(|| format!("it has no layer of type {wanted}"))?;
        if layer.size > ARCHIVE_BYTES_MAX as u64 {
            return Err(format!("it is larger than {ARCHIVE_BYTES_MAX} bytes"));
        }
        let digest = layer.digest.as_str().parse().map_err(|_| "its digest is odd".to_owned())?;
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

    /// Copies one artifact and notes what became of it; only trouble of our own ends the copy.
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
            (Err(problem), _) => Err(Trouble::Source(problem)),
            (_, Some(heard)) => Err(Trouble::Source(heard.clone())),
            (Ok(repository), None) => {
                let copied = self.copy(index, reference, &repository).await;
                copied.map(|manifest| (repository, manifest))
            }
        };
        let (state, message) = match &done {
            Ok(_) => (None, None),
            Err(Trouble::NotFound(message)) => (Some(CopiedState::NotFound), Some(message)),
            Err(Trouble::Source(message) | Trouble::Ours(message) | Trouble::Gone(message)) => {
                (Some(CopiedState::Failed), Some(message))
            }
        };
        self.job.update(index, |artifact| {
            let copied = if artifact.bytes_copied > 0 { CopiedState::Copied } else { CopiedState::Present };
            // A new name for what was here is news as well.
            let copied = if artifact.state == CopiedState::Copied { CopiedState::Copied } else { copied };
            artifact.state = state.unwrap_or(copied);
            artifact.message = message.cloned();
        });
        match done {
            Ok(done) => Ok(Some(done)),
            Err(Trouble::Ours(message)) => Err(message),
            Err(Trouble::Gone(message)) => {
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
    ) -> Result<Manifest, Trouble> {
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
                Trouble::Ours("a change cannot be recorded now, and none goes unrecorded; try again".to_owned())
            })?;
        }
        Ok(read)
    }
}

/// Copies a manifest and all it refers to; says whether anything in the registry changed by it.
async fn manifest(
    theirs: &mut Registry,
    transfer: &Transfer<'_>,
    reference: &Reference,
    platforms: &[Platform],
    depth: usize,
) -> Result<(Manifest, crate::registry::Digest, bool), Trouble> {
    let fetched = theirs.manifest(reference).await?;
    let read = Manifest::read(fetched.media_type.as_deref(), &fetched.bytes)
        .map_err(|problem| Trouble::Source(format!("the manifest of `{reference}` {problem}")))?;
    for blob in &read.blobs {
        transfer.blob(theirs, &reference.repository, blob).await?;
    }
    if read.is_index() {
        if depth >= INDEX_DEPTH_MAX {
            return Err(Trouble::Source(format!("`{reference}` is nested too deep")));
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
    let at: OurReference = at.parse().map_err(|error| Trouble::Source(format!("{error}")))?;
    let before = transfer.ours.stat_manifest(transfer.repository, &at).ok().map(|(digest, ..)| digest);
    let size = fetched.bytes.len() as u64;
    // Of an index the chosen part is enough: it stays byte for byte what it is, and so does its digest.
    let put = transfer.ours.put_partly(transfer.repository, &at, Some(&read.media_type), fetched.bytes.into()).await?;
    let news = before.as_ref() != Some(&put.digest);
    if news {
        transfer.job.copied(transfer.index, size);
    } else {
        transfer.job.present(transfer.index, size);
    }
    Ok((read, put.digest, news))
}

/// What of an index is wanted.
fn chosen<'m>(
    index: &'m Manifest,
    platforms: &[Platform],
    reference: &Reference,
) -> Result<Vec<&'m Descriptor>, Trouble> {
    if platforms.is_empty() {
        return Ok(index.manifests.iter().collect());
    }
    let wanted = |child: &&Descriptor| {
        child.platform.as_ref().is_some_and(|offered| platforms.iter().any(|platform| platform.matches(offered)))
    };
    let found: Vec<&Descriptor> = index.manifests.iter().filter(wanted).collect();
    if found.is_empty() {
        let offered: BTreeSet<String> =
            index.manifests.iter().filter_map(|child| child.platform.as_ref()).map(ToString::to_string).collect();
        let offered = offered.into_iter().collect::<Vec<_>>().join(", ");
        let message = format!("`{reference}` has nothing for the platforms asked for; it has {offered}");
        return Err(Trouble::NotFound(message));
    }
    Ok(found)
}

/// The variables an application sets for a compose component, with the supplier's defaults.
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

/// For the operator; what is not for the operator is logged.
fn told(error: AppError) -> String {
    match &error {
        AppError::Refused { errors, .. } => {
            let list: Vec<String> = errors.iter().map(|error| format!("{}: {}", error.field, error.message)).collect();
            if list.is_empty() { error.to_string() } else { format!("{error} ({})", list.join("; ")) }
        }
        other => {
            tracing::error!(error = other as &dyn std::error::Error, "a copy failed");
            "the server failed; its log says more".to_owned()
        }
    }
}

fn words(trouble: Trouble) -> String {
    match trouble {
        Trouble::NotFound(text) | Trouble::Source(text) | Trouble::Gone(text) | Trouble::Ours(text) => text,
    }
}
