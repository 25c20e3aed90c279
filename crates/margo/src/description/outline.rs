//! The readable parts of a description that may be invalid: enough to run all dependent checks in the same pass.

use super::{ComponentSource, ProfileType};
use crate::node::Kind;
use crate::package::ResourceKind;
use crate::reader::Cursor;

/// The parts of a description that files, registries and folders are compared with. Empty if the text is not YAML.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Outline {
    /// Whether the text is YAML and an object; if not, everything else is empty.
    pub is_read: bool,
    /// `metadata.version`.
    pub version: Option<String>,
    /// In the order of [`ResourceKind::ALL`].
    pub resources: Vec<OutlinedResource>,
    /// In the order of the description.
    pub components: Vec<OutlinedComponent>,
    /// Whether every component of every profile has a readable name.
    pub has_all_components: bool,
}

/// A file that the description names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutlinedResource {
    pub kind: ResourceKind,
    /// As written.
    pub name: String,
    /// Counted from 1.
    pub line: usize,
}

/// A component with a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutlinedComponent {
    pub name: String,
    /// Type of its profile.
    pub profile_type: Option<ProfileType>,
    /// `None` if it is invalid.
    pub source: Option<ComponentSource>,
}

pub(super) fn outline(root: &Cursor<'_>) -> Outline {
    let metadata = root.peek("metadata");
    let application = metadata.as_ref().and_then(|cursor| cursor.peek("catalog")?.peek("application"));
    let resource = |kind: ResourceKind| {
        let cursor = application.as_ref()?.peek(kind.as_str())?;
        let name = application.as_ref()?.peek_text(kind.as_str())?.to_owned();
        Some(OutlinedResource { kind, name, line: cursor.node().line })
    };
    let mut outline = Outline {
        is_read: matches!(root.node().kind, Kind::Mapping(_)),
        version: metadata.as_ref().and_then(|cursor| cursor.peek_text("version")).map(str::to_owned),
        resources: ResourceKind::ALL.into_iter().filter_map(resource).collect(),
        components: Vec::new(),
        has_all_components: root.peek("deploymentProfiles").is_some(),
    };
    for profile in root.peek("deploymentProfiles").iter().flat_map(Cursor::items) {
        let components = profile.peek("components");
        outline.has_all_components &= components.is_some();
        for component in components.iter().flat_map(Cursor::items) {
            let Some(name) = component.peek_text("name") else {
                outline.has_all_components = false;
                continue;
            };
            let profile_type = profile.peek_text("type").and_then(ProfileType::of);
            outline.components.push(OutlinedComponent {
                name: name.to_owned(),
                profile_type,
                source: component.peek("properties").and_then(|properties| source(&properties)),
            });
        }
    }
    outline
}

fn source(properties: &Cursor<'_>) -> Option<ComponentSource> {
    if let (Some(location), None) = (properties.peek_text("packageLocation"), properties.peek("repository")) {
        let key_location = properties.peek_text("keyLocation").map(str::to_owned);
        return Some(ComponentSource::Location { package_location: location.to_owned(), key_location });
    }
    let repository = properties.peek_text("repository")?.to_owned();
    let revision = properties.peek_text("revision").and_then(super::read::stored_revision)?;
    Some(ComponentSource::Oci { repository, revision })
}
