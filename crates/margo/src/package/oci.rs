//! A package as an OCI artifact (REG-03 to REG-08, W-21).

use super::files::{describe, extension, finish, inner_path, note};
use super::{
    APP_ARTIFACT_TYPE, Broken, DESCRIPTION_BYTES_MAX, DESCRIPTION_MEDIA_TYPE, FILES_MAX, Layer,
    OCI_MANIFEST_MEDIA_TYPE, OciManifest, Package, RESOURCE_BYTES_MAX, Resource, ResourceKind,
};
use crate::description::{Outline, OutlinedResource};
use crate::digest::Digest;
use crate::finding::{Finding, Findings, Read, ReadResult, Severity};
use crate::json;
use crate::node::Limits;
use crate::reader::{Cursor, FIX_FIRST, Object, shown};
use crate::tree::{Members, Tree};

const EMPTY_MEDIA_TYPE: &str = "application/vnd.oci.empty.v1+json";
const EMPTY_CONFIG: &[u8] = b"{}";
const LAYER_PREFIX: &str = "application/vnd.margo.app.";
const TITLE: &str = "org.opencontainers.image.title";
const RESOURCE: &str = "org.margo.app.resource";
/// The name of a description in an artifact; any name is valid (AP-01).
const DESCRIPTION_TITLE: &str = "margo.yaml";

pub(super) fn read_manifest(json: &[u8]) -> ReadResult<OciManifest> {
    crate::reader::read_json(json, Limits::DOCUMENT, manifest)
}

fn manifest(root: &Cursor<'_>) -> Option<OciManifest> {
    let object = root.object()?;
    if let Some(cursor) = object.get("mediaType") {
        must_be(&cursor, OCI_MANIFEST_MEDIA_TYPE);
    }
    // REG-05
    if let Some(cursor) = object.required("artifactType") {
        must_be(&cursor, APP_ARTIFACT_TYPE);
    }
    if let Some(config) = object.required("config").and_then(|cursor| cursor.object()) {
        if let Some(cursor) = config.required("mediaType") {
            must_be(&cursor, EMPTY_MEDIA_TYPE);
        }
        let digest = config.required("digest").and_then(|cursor| cursor.parse::<Digest>());
        if digest.is_some_and(|digest| digest != Digest::of(EMPTY_CONFIG)) {
            config.cursor().warning("is not the empty configuration `{}`; it is ignored");
        }
    }
    let cursor = object.required("layers")?;
    let layers = cursor.list_of(layer)?;
    if layers.len() > FILES_MAX {
        cursor.error(format!("holds more than {FILES_MAX} layers"));
    }
    // REG-06
    let descriptions = layers.iter().filter(|layer| layer.media_type == DESCRIPTION_MEDIA_TYPE).count();
    if descriptions != 1 {
        cursor.error(format!("must hold exactly one layer of type {DESCRIPTION_MEDIA_TYPE}, has {descriptions}"));
    }
    Some(OciManifest { layers })
}

fn must_be(cursor: &Cursor<'_>, expected: &str) {
    if let Some(text) = cursor.text()
        && text != expected
    {
        cursor.error(format!("is `{}`, but must be `{expected}`", shown(&text)));
    }
}

fn layer(cursor: &Cursor<'_>) -> Option<Layer> {
    let object = cursor.object()?;
    let media_type = object.required("mediaType").and_then(|cursor| {
        let text = cursor.text()?;
        if !text.starts_with(LAYER_PREFIX) {
            // W-21
            cursor.error(format!("`{}` is not a part of a package: the type must begin {LAYER_PREFIX}", shown(&text)));
        } else if text != DESCRIPTION_MEDIA_TYPE && ResourceKind::of_media_type(&text).is_none() {
            cursor.warning(format!("`{}` is not a known resource and is ignored", shown(&text)));
        }
        Some(text)
    });
    let digest = object.required("digest").and_then(|cursor| cursor.parse());
    let size = object.required("size").and_then(|cursor| {
        let size = cursor.unsigned()?;
        let is_description = media_type.as_deref() == Some(DESCRIPTION_MEDIA_TYPE);
        let max = if is_description { DESCRIPTION_BYTES_MAX } else { RESOURCE_BYTES_MAX };
        if size > max as u64 {
            cursor.error(format!("is more than the {max} bytes allowed"));
        }
        Some(size)
    });
    let annotations = object.get("annotations").and_then(|cursor| cursor.object());
    let annotation = |key: &str| annotations.as_ref().and_then(|object: &Object<'_>| object.text(key));
    Some(Layer {
        media_type: media_type?,
        digest: digest?,
        size: size?,
        title: annotation(TITLE),
        resource: annotation(RESOURCE),
    })
}

pub(super) fn read_layers(layers: &[(Layer, Vec<u8>)]) -> Result<Read<Package>, Broken> {
    let mut findings = Vec::new();
    let mut descriptions = layers.iter().filter(|(layer, _)| layer.media_type == DESCRIPTION_MEDIA_TYPE);
    let (Some((layer, bytes)), None) = (descriptions.next(), descriptions.next()) else {
        let message = format!("exactly one layer of type {DESCRIPTION_MEDIA_TYPE} is required; {FIX_FIRST}");
        return Err(Broken { findings: Findings::one("layers", message), outline: Outline::default() });
    };
    let name = layer.title.as_deref().unwrap_or(DESCRIPTION_TITLE);
    let (description, outline) = describe(&shown(name), bytes, &mut findings);
    let mut resources = Vec::new();
    if outline.is_read {
        for named in &outline.resources {
            resources.extend(find_layer(layers, named, &mut findings));
        }
        for (layer, _) in layers {
            let Some(kind) = layer.kind() else { continue };
            if outline.resources.iter().all(|named| named.kind != kind) {
                let message =
                    format!("a layer of type {} is not referenced by the description", shown(&layer.media_type));
                findings.push(note(Severity::Warning, "layers", message));
            }
        }
    }
    finish(description, outline, bytes.clone(), resources, findings)
}

impl Layer {
    /// By media type first, else by the annotation (REG-08).
    fn kind(&self) -> Option<ResourceKind> {
        ResourceKind::of_media_type(&self.media_type).or_else(|| {
            let resource = self.resource.as_deref()?;
            ResourceKind::ALL.into_iter().find(|kind| kind.field() == resource)
        })
    }
}

fn find_layer(layers: &[(Layer, Vec<u8>)], named: &OutlinedResource, findings: &mut Vec<Finding>) -> Option<Resource> {
    let OutlinedResource { kind, name, line } = named;
    let kind = *kind;
    let path = inner_path(name);
    let titled = |layer: &Layer| path.is_some() && layer.title.as_deref().and_then(inner_path) == path;
    let of_kind: Vec<_> = layers.iter().filter(|(layer, _)| layer.kind() == Some(kind)).collect();
    let found = of_kind.iter().find(|(layer, _)| titled(layer)).or(of_kind.first()).copied();
    let found = found.or_else(|| layers.iter().find(|(layer, _)| titled(layer)));
    let (Some((layer, bytes)), Some(path)) = (found, path) else {
        let message = format!("names `{}`, for which the package has no layer", shown(name));
        findings.push(Finding { line: Some(*line), ..note(Severity::Error, kind.field(), message) });
        return None;
    };
    let known = ResourceKind::of_media_type(&layer.media_type) == Some(kind);
    let media_type = if known { layer.media_type.clone() } else { kind.media_type(&path) };
    Some(Resource { kind, media_type, path, bytes: bytes.clone() })
}

pub(super) fn write(package: &Package) -> (Vec<u8>, Vec<(Digest, Vec<u8>)>) {
    let mut blobs: Vec<(Digest, Vec<u8>)> = Vec::new();
    let mut keep = |bytes: &[u8]| {
        let digest = Digest::of(bytes);
        if blobs.iter().all(|(known, _)| *known != digest) {
            blobs.push((digest.clone(), bytes.to_vec()));
        }
        digest
    };
    let config = descriptor(EMPTY_MEDIA_TYPE, &keep(EMPTY_CONFIG), EMPTY_CONFIG.len()).with("data", "e30=");
    let description = &package.description_bytes;
    let mut layers = vec![
        descriptor(DESCRIPTION_MEDIA_TYPE, &keep(description), description.len())
            .with("annotations", Members::new().with(TITLE, DESCRIPTION_TITLE)),
    ];
    for resource in &package.resources {
        let annotations = Members::new().with(TITLE, &resource.path).with(RESOURCE, resource.kind.field());
        layers.push(
            descriptor(&resource.media_type, &keep(&resource.bytes), resource.bytes.len())
                .with("annotations", annotations),
        );
    }
    let manifest = Members::new()
        .with("schemaVersion", 2)
        .with("mediaType", OCI_MANIFEST_MEDIA_TYPE)
        .with("artifactType", APP_ARTIFACT_TYPE)
        .with("config", config)
        .with("layers", Tree::list(layers));
    (json::canonical(&manifest.build()), blobs)
}

fn descriptor(media_type: &str, digest: &Digest, size: usize) -> Members {
    Members::new().with("mediaType", media_type).with("digest", digest.as_str()).with("size", size as u64)
}

impl ResourceKind {
    pub const ALL: [Self; 4] = [Self::Icon, Self::DescriptionFile, Self::LicenseFile, Self::ReleaseNotes];

    /// The name in media types.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Icon => "icon",
            Self::DescriptionFile => "descriptionFile",
            Self::LicenseFile => "licenseFile",
            Self::ReleaseNotes => "releaseNotes",
        }
    }

    /// The field of the description that names such a resource; the value of the layer annotation (REG-08).
    pub fn field(self) -> &'static str {
        match self {
            Self::Icon => "metadata.catalog.application.icon",
            Self::DescriptionFile => "metadata.catalog.application.descriptionFile",
            Self::LicenseFile => "metadata.catalog.application.licenseFile",
            Self::ReleaseNotes => "metadata.catalog.application.releaseNotes",
        }
    }

    /// `application/vnd.margo.app.<kind>.v1+<format>` (REG-07).
    pub fn media_type(self, path: &str) -> String {
        let extension = extension(path);
        let format = match extension.as_str() {
            "jpg" => "jpeg",
            "md" => "markdown",
            "txt" | "" => "plain",
            other if other.bytes().all(|byte| byte.is_ascii_alphanumeric()) => other,
            _ => "octet-stream",
        };
        format!("{LAYER_PREFIX}{}.v1+{format}", self.as_str())
    }

    pub fn of_media_type(media_type: &str) -> Option<Self> {
        let rest = media_type.strip_prefix(LAYER_PREFIX)?;
        let (name, format) = rest.split_once(".v1+")?;
        Self::ALL.into_iter().find(|kind| kind.as_str() == name && !format.is_empty())
    }
}
