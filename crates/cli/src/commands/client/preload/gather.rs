//! Collects the components of a desired state and their images from the registries.

use super::super::super::Session;
use super::super::super::app::{RegistryArgs, own_connection};
use crate::failure::{Failure, Outcome};
use margo::Digest;
use margo::deployment::ApplicationDeployment;
use margo::description::{Component, ComponentSource};
use margrave_api::preload::{Preload, PreloadArtifact, PreloadImage};
use margrave_oci::build::{BYTES_MAX, COMPOSE_LAYER_TYPE};
use margrave_oci::{Connection, Manifest, OciError, Platform, Reference, Registry, Tag, images, mirror};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{Seek as _, Write as _};

/// Component layers, by the end of their media type: compose archives, charts, manifests.
const LAYERS: [&str; 3] = [COMPOSE_LAYER_TYPE, "helm.chart.content.v1.tar+gzip", "component.manifests.tar+gzip"];

#[derive(Debug, Default)]
pub(super) struct PreloadContent {
    pub(super) artifacts: Vec<PreloadArtifact>,
    pub(super) images: Vec<PreloadImage>,
    /// Blobs of the artifacts.
    pub(super) layers: Vec<Vec<u8>>,
    /// Blobs of the images, not pulled yet.
    pub(super) blobs: Vec<Blob>,
}

#[derive(Debug)]
pub(super) struct Blob {
    pub(super) place: Reference,
    pub(super) digest: Digest,
    pub(super) size: u64,
}

/// The embedded registry and the credentials for others.
pub(super) struct Sources {
    own: String,
    own_connection: Connection,
    other_connection: Connection,
}

fn broken(what: &str, error: &OciError) -> Failure {
    Failure::failed(format!("pull {what}")).because(error.to_string())
}

impl Sources {
    pub(super) async fn new(session: &Session, args: &RegistryArgs) -> Outcome<Self> {
        let own = session.api.registry().await?.address;
        let own_connection = own_connection(session).await?;
        Ok(Self { own, own_connection, other_connection: args.connection()? })
    }

    fn registry(&self, host: &str) -> Outcome<Registry> {
        let connection = if host == self.own { &self.own_connection } else { &self.other_connection };
        Registry::new(host, connection).map_err(|error| broken(host, &error))
    }

    /// Locations of an artifact, in the order to try.
    fn places(&self, reference: &Reference) -> Vec<Reference> {
        let own = mirror::repository(&reference.host, &reference.repository)
            .filter(|_| reference.host != self.own)
            .map(|repository| Reference { host: self.own.clone(), repository, tag: reference.tag.clone() });
        own.into_iter().chain([reference.clone()]).collect()
    }

    /// The manifest of an artifact and its location; for an index, the manifest of this platform.
    async fn manifest(&self, reference: &Reference, platform: Option<&Platform>) -> Outcome<(Reference, Manifest)> {
        let mut last = Failure::failed(format!("pull {reference}"));
        for place in self.places(reference) {
            let mut registry = self.registry(&place.host)?;
            let fetched = match registry.manifest(&place).await {
                Ok(fetched) => fetched,
                Err(error) => {
                    last = broken(&place.to_string(), &error);
                    continue;
                }
            };
            let odd = |problem: String| Failure::failed(format!("the manifest of {place}")).because(problem);
            let manifest = Manifest::read(fetched.media_type.as_deref(), &fetched.bytes).map_err(odd)?;
            let Some(platform) = platform.filter(|_| manifest.is_index()) else { return Ok((place, manifest)) };
            let is_match =
                |offered: &Option<Platform>| offered.as_ref().is_some_and(|offered| platform.matches(offered));
            let Some(one) = manifest.manifests.iter().find(|one| is_match(&one.platform)) else {
                return Err(odd(format!("no manifest for {platform}")));
            };
            let one = Reference { tag: Tag::Digest(one.digest.clone()), ..place.clone() };
            let fetched = registry.manifest(&one).await.map_err(|error| broken(&one.to_string(), &error))?;
            return Ok((place.clone(), Manifest::read(fetched.media_type.as_deref(), &fetched.bytes).map_err(odd)?));
        }
        Err(last)
    }

    /// Downloads and verifies a blob of any size into a temporary file, deleted when closed.
    pub(super) async fn blob(&self, place: &Reference, digest: &Digest, size: u64) -> Outcome<File> {
        let what = format!("layer {digest} of {place}");
        let failed = |error: std::io::Error| Failure::failed(format!("pull {what}")).caused_by(&error);
        let mut registry = self.registry(&place.host)?;
        let mut download =
            registry.download(&place.repository, digest, 0).await.map_err(|error| broken(&what, &error))?;
        let mut file = tempfile::tempfile().map_err(failed)?;
        let mut arrived = 0_u64;
        while let Some(chunk) = download.next().await {
            let chunk = chunk.map_err(failed)?;
            arrived += chunk.len() as u64;
            if arrived > size {
                break;
            }
            file.write_all(&chunk).map_err(failed)?;
        }
        file.rewind().map_err(failed)?;
        let actual = Digest::of_reader(&mut file).map_err(failed)?;
        if arrived != size || actual != *digest {
            return Err(Failure::failed(format!("pull {what}")).because("the digest does not match".to_owned()));
        }
        file.rewind().map_err(failed)?;
        Ok(file)
    }
}

/// Collects everything that the deployments of a desired state name; images only if a platform is given.
pub(super) async fn all(made: &Preload, sources: &Sources, images_for: Option<&Platform>) -> Outcome<PreloadContent> {
    let mut gathered = PreloadContent::default();
    let mut known = BTreeSet::new();
    for deployment in &made.deployments {
        let unreadable = |_| Failure::failed(format!("deployment {} cannot be read", deployment.id));
        let document = ApplicationDeployment::read(deployment.yaml.as_bytes()).map_err(unreadable)?.document;
        for component in &document.spec.deployment_profile.components {
            let ComponentSource::Oci { repository, revision } = &component.properties.source else {
                return Err(Failure::failed(format!("component {} is not in a registry", component.name))
                    .because("only registry artifacts can be included".to_owned())
                    .next("skip components with --no-components"));
            };
            let (name, layer) = artifact(repository, revision, sources).await?;
            let digest = Digest::of(&layer);
            if let Some(platform) = images_for
                && document.spec.deployment_profile.profile_type.as_str() == "compose"
            {
                for image in images_of(&document, component, &layer)? {
                    if known.insert(image.clone()) {
                        add_image(&image, platform, sources, &mut gathered).await?;
                    }
                }
            }
            let listed = PreloadArtifact { reference: name, layer: digest.to_string() };
            if !gathered.artifacts.contains(&listed) {
                gathered.artifacts.push(listed);
                gathered.layers.push(layer);
            }
        }
    }
    Ok(gathered)
}

/// The layer of a component, and its name in deployments.
async fn artifact(repository: &str, revision: &str, sources: &Sources) -> Outcome<(String, Vec<u8>)> {
    let name = format!("{repository}:{revision}");
    let odd = |problem: String| Failure::failed(format!("component {name}")).because(problem);
    let reference = Reference::of_component(repository, revision).map_err(odd)?;
    let (place, manifest) = sources.manifest(&reference, None).await?;
    let is_match = |media_type: &str| LAYERS.iter().any(|known| media_type.ends_with(known));
    let Some(layer) = manifest.blobs.iter().find(|blob| is_match(&blob.media_type)) else {
        return Err(odd("it has no component layer".to_owned()));
    };
    let max = usize::try_from(BYTES_MAX).unwrap_or(usize::MAX);
    let mut registry = sources.registry(&place.host)?;
    let bytes = registry.blob(&place.repository, &layer.digest, max).await.map_err(|error| broken(&name, &error))?;
    Ok((name, bytes))
}

/// The images in a compose archive, with the values of the deployment substituted.
fn images_of(document: &ApplicationDeployment, component: &Component, layer: &[u8]) -> Outcome<BTreeSet<String>> {
    let mut variables = BTreeMap::new();
    for value in document.spec.parameters.values() {
        let own = value.targets.iter().filter(|target| target.components.contains(&component.name));
        for target in own {
            let name = target.pointer.strip_prefix("ENV.").unwrap_or(&target.pointer);
            let text = value.value.as_str().map_or_else(|| value.value.to_string(), str::to_owned);
            variables.insert(name.to_owned(), if value.value == Value::Null { String::new() } else { text });
        }
    }
    let odd = |problem: String| Failure::failed(format!("images of component {}", component.name)).because(problem);
    let found = images::of_compose(layer, &variables).map_err(odd)?;
    match found.unknown.into_iter().next() {
        Some(unknown) => Err(odd(unknown)),
        None => Ok(found.images),
    }
}

async fn add_image(name: &str, platform: &Platform, sources: &Sources, gathered: &mut PreloadContent) -> Outcome {
    let odd = |problem: String| Failure::failed(format!("image {name}")).because(problem);
    let reference = Reference::parse_image(name).map_err(odd)?;
    let (place, manifest) = sources.manifest(&reference, Some(platform)).await?;
    let Some((config, layers)) = manifest.blobs.split_first() else {
        return Err(odd("its manifest has no layers".to_owned()));
    };
    for blob in &manifest.blobs {
        let (digest, size) = (blob.digest.clone(), blob.size);
        if gathered.blobs.iter().all(|known| known.digest != digest) {
            gathered.blobs.push(Blob { place: place.clone(), digest, size });
        }
    }
    gathered.images.push(PreloadImage {
        name: name.to_owned(),
        config: config.digest.to_string(),
        layers: layers.iter().map(|layer| layer.digest.to_string()).collect(),
    });
    Ok(())
}
