//! Reading an ApplicationDescription of generation B, and of A where it differs in form (W-22).

use super::{
    ApplicationDescription, ApplicationMetadata, Author, Catalog, Component, ComponentProperties, ComponentSource,
    DeploymentProfile, Metadata, Organization, ProfileType, Timeout,
};
use crate::constraints;
use crate::ids::ApplicationId;
use crate::parameters;
use crate::reader::names::Names;
use crate::reader::{Cursor, Object, shown};
use std::collections::HashSet;

/// The version of descriptions in generation A.
const API_VERSIONS_A: [&str; 3] = ["margo.org/v1-alpha1", "margo.org/v1alpha1", "application.margo.org/v1alpha1"];

pub(super) fn description(root: &Cursor<'_>) -> Option<ApplicationDescription> {
    let object = root.object()?;
    api_version(&object);
    kind(&object, "ApplicationDescription");
    let metadata_object = object.required("metadata").and_then(|cursor| cursor.object());
    let id = id(&object, metadata_object.as_ref());
    let metadata = metadata_object.as_ref().and_then(metadata);
    let profiles = object.required("deploymentProfiles").and_then(|cursor| deployment_profiles(&cursor));
    // References are checked against all readable names, even if the objects with these names are invalid.
    let components = component_names(root);
    let profile_ids: HashSet<&str> = root
        .peek("deploymentProfiles")
        .iter()
        .flat_map(Cursor::items)
        .filter_map(|item| item.peek_text("id"))
        .collect();
    let parameters_cursor = object.get("parameters");
    let parameters = match &parameters_cursor {
        Some(cursor) => parameters::read::parameters(cursor, &components, &profile_ids),
        None => parameters::read::Parameters::none(),
    };
    components.report_unused(root, "the components that `parameters` target");
    let parameter_names = Names::of_keys(parameters_cursor.as_ref());
    let configuration = match object.get("configuration") {
        Some(cursor) => parameters::read::configuration(&cursor, &parameters.read, &parameter_names).map(Some),
        None => Some(None),
    };
    parameter_names.report_unused(root, "the parameters that settings refer to");
    let extensions = object.extensions();
    object.warn_unread();
    Some(ApplicationDescription {
        id: id?,
        metadata: metadata?,
        deployment_profiles: profiles?,
        parameters: parameters.whole()?,
        configuration: configuration?,
        extensions,
    })
}

fn component_names<'r>(root: &Cursor<'r>) -> Names<'r> {
    let mut names = Names::default();
    for profile in names.items(root, "deploymentProfiles") {
        for component in names.items(&profile, "components") {
            names.take(&component, "name");
        }
    }
    names
}

fn api_version(object: &Object<'_>) {
    let Some(cursor) = object.required("apiVersion") else { return };
    match cursor.text().as_deref() {
        None | Some("v1") => {}
        Some(text) if API_VERSIONS_A.contains(&text) => {
            cursor.warning(format!("`{text}` is from an older preview; write `v1`"));
        }
        Some(text) => cursor.error(format!("`{}` is not a known version; write `v1`", shown(text))),
    }
}

/// Generation B has no `kind`; if present it must be right.
pub(crate) fn kind(object: &Object<'_>, expected: &str) {
    let Some(cursor) = object.get("kind") else { return };
    match cursor.text() {
        Some(text) if text == expected => cursor.warning("is no longer part of this document; remove it"),
        Some(text) => cursor.error(format!("is `{}`, but this must be an {expected}", shown(&text))),
        None => {}
    }
}

fn id(object: &Object<'_>, metadata: Option<&Object<'_>>) -> Option<ApplicationId> {
    let older = metadata.and_then(|metadata| metadata.get("id"));
    match (object.get("id"), older) {
        (Some(cursor), older) => {
            if let Some(older) = older {
                older.warning("is ignored, because `id` is at the top level");
            }
            cursor.parse()
        }
        (None, Some(older)) => {
            older.warning("is from an older preview; move `id` to the top level");
            older.parse()
        }
        (None, None) => {
            object.missing("id", "is missing");
            None
        }
    }
}

fn metadata(object: &Object<'_>) -> Option<Metadata> {
    let name = object.required_text("name");
    let description = object.text("description");
    let version = object.required_text("version");
    let catalog = object.required("catalog").and_then(|cursor| catalog(&cursor));
    object.warn_unread();
    Some(Metadata { name: name?, description, version: version?, catalog: catalog? })
}

fn catalog(cursor: &Cursor<'_>) -> Option<Catalog> {
    let object = cursor.object()?;
    let application = object.optional("application", application_metadata);
    let author = object.optional("author", |cursor| cursor.list_of(author)).unwrap_or_default();
    let organization = object.required("organization").and_then(|cursor| cursor.list_of(organization));
    object.warn_unread();
    Some(Catalog { application, author, organization: organization? })
}

fn application_metadata(cursor: &Cursor<'_>) -> Option<ApplicationMetadata> {
    let object = cursor.object()?;
    let metadata = ApplicationMetadata {
        description_file: object.text("descriptionFile"),
        icon: object.text("icon"),
        license_file: object.text("licenseFile"),
        release_notes: object.text("releaseNotes"),
        site: object.text("site"),
        tagline: object.text("tagline"),
        tags: object.optional("tags", |cursor| cursor.list_of(Cursor::text)).unwrap_or_default(),
    };
    object.warn_unread();
    Some(metadata)
}

fn author(cursor: &Cursor<'_>) -> Option<Author> {
    let object = cursor.object()?;
    let name = object.text("name");
    let email = object.optional("email", |cursor| {
        let text = cursor.text()?;
        if !text.contains('@') {
            cursor.error(format!("`{}` is not an e-mail address: it has no `@`", shown(&text)));
        }
        Some(text)
    });
    object.warn_unread();
    Some(Author { name, email })
}

fn organization(cursor: &Cursor<'_>) -> Option<Organization> {
    let object = cursor.object()?;
    let name = object.required_text("name");
    let site = object.text("site");
    object.warn_unread();
    Some(Organization { name: name?, site })
}

fn deployment_profiles(cursor: &Cursor<'_>) -> Option<Vec<DeploymentProfile>> {
    let mut ids = HashSet::new();
    let items = cursor.list()?;
    if items.is_empty() {
        cursor.error("must hold at least one profile");
    }
    let read: Vec<Option<DeploymentProfile>> = items
        .iter()
        .map(|item| {
            let profile = deployment_profile(item);
            if let Some(id) = item.peek_text("id")
                && !ids.insert(id)
            {
                item.error(format!("has the id `{}` of an earlier profile; ids must be unique", shown(id)));
            }
            profile
        })
        .collect();
    read.into_iter().collect()
}

fn deployment_profile(cursor: &Cursor<'_>) -> Option<DeploymentProfile> {
    let object = cursor.object()?;
    let profile_type = object.required("type").and_then(|cursor| profile_type(&cursor));
    let id = object.required_text("id");
    if id.as_deref() == Some("") {
        object.missing("id", "must not be empty");
    }
    let description = object.text("description");
    let components_cursor = object.required("components");
    let components = components_cursor.as_ref().and_then(|cursor| components(cursor, profile_type));
    let by_location = |component: &Cursor<'_>| {
        let properties = component.peek("properties");
        properties.is_some_and(|one| one.peek("packageLocation").is_some() && one.peek("repository").is_none())
    };
    if profile_type.is_none() && components_cursor.iter().flat_map(Cursor::items).any(|item| by_location(&item)) {
        cursor.blocks_check(&object.path_of("type"), "where its components come from");
    }
    let device_constraints = constraints::read::of_profile(&object);
    let rules = device_constraints.as_ref().and_then(|constraints| constraints.eligibility_rules.as_deref());
    let labeled = rules.unwrap_or_default().iter().any(|rule| rule.label_selector.is_some());
    if profile_type == Some(ProfileType::Custom)
        && !labeled
        && let Some(cursor) = object.get("type")
    {
        // CR-01
        cursor.warning("is `custom`, and no `labelSelector` selects the devices that support it");
    }
    let extensions = object.extensions();
    object.warn_unread();
    Some(DeploymentProfile {
        profile_type: profile_type?,
        id: id?,
        description,
        components: components?,
        device_constraints,
        extensions,
    })
}

pub(crate) fn profile_type(cursor: &Cursor<'_>) -> Option<ProfileType> {
    let text = cursor.text()?;
    let found = ProfileType::of(&text);
    match found {
        Some(_) if text == "helm.v3" => {
            cursor.warning("`helm.v3` is from an older preview; write `helm`");
        }
        Some(_) => {}
        None => cursor.error(format!("`{}` is not a deployment type; write helm, compose or custom", shown(&text))),
    }
    found
}

/// Components in installation order (AD-01).
pub(crate) fn components(cursor: &Cursor<'_>, profile_type: Option<ProfileType>) -> Option<Vec<Component>> {
    let items = cursor.list()?;
    if items.is_empty() {
        cursor.error("must hold at least one component");
    }
    let mut names = HashSet::new();
    let read: Vec<Option<Component>> = items
        .iter()
        .map(|item| {
            let component = component(item, profile_type);
            if let Some(name) = item.peek_text("name")
                && !names.insert(name)
            {
                item.error(format!("has the name `{}` of an earlier component", shown(name)));
            }
            component
        })
        .collect();
    read.into_iter().collect()
}

fn component(cursor: &Cursor<'_>, profile_type: Option<ProfileType>) -> Option<Component> {
    let object = cursor.object()?;
    let name = object.required("name").and_then(|cursor| {
        let text = cursor.text()?;
        let valid = !text.is_empty() && text.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-'));
        if !valid {
            let text = shown(&text);
            cursor.error(format!("`{text}` is not a component name: use lower-case letters, digits and dashes"));
        }
        Some(text)
    });
    let properties = object.required("properties").and_then(|cursor| properties(&cursor, profile_type));
    let extensions = object.extensions();
    object.warn_unread();
    Some(Component { name: name?, properties: properties?, extensions })
}

fn properties(cursor: &Cursor<'_>, profile_type: Option<ProfileType>) -> Option<ComponentProperties> {
    let object = cursor.object()?;
    let source = source(&object, profile_type);
    let wait = object.optional("wait", Cursor::lenient_boolean);
    let timeout = object.optional("timeout", timeout);
    object.warn_unread();
    Some(ComponentProperties { source: source?, wait, timeout })
}

fn source(object: &Object<'_>, profile_type: Option<ProfileType>) -> Option<ComponentSource> {
    let location = object.get("packageLocation");
    let key_location = object.get("keyLocation");
    if let (Some(location), false) = (&location, object.get("repository").is_some())
        && matches!(profile_type, None | Some(ProfileType::Compose))
    {
        location.warning("is from an older preview; publish the archive as an OCI artifact");
        let (package_location, key_location) = (location.text(), key_location.and_then(|cursor| cursor.text()));
        return Some(ComponentSource::Location { package_location: package_location?, key_location });
    }
    for cursor in location.iter().chain(&key_location) {
        cursor.warning("is ignored, because components come from `repository` and `revision`");
    }
    let repository = object.required("repository").and_then(|cursor| {
        let text = cursor.text()?;
        if text.strip_prefix("oci://").is_none_or(str::is_empty) {
            cursor.error(format!("`{}` is not an OCI repository: it must begin with `oci://`", shown(&text)));
        }
        Some(text)
    });
    let revision = object.required("revision").and_then(|cursor| revision(&cursor));
    Some(ComponentSource::Oci { repository: repository?, revision: revision? })
}

/// SemVer 2.0 with `_` for `+` (AD-04); a `+` is accepted with a warning.
fn revision(cursor: &Cursor<'_>) -> Option<String> {
    let text = cursor.text()?;
    let stored = stored_revision(&text);
    if stored.is_none() {
        let hint = if text.starts_with('v') { ", without the leading `v`" } else { "" };
        let text = shown(&text);
        cursor.error(format!("`{text}` is not a version: write SemVer 2.0 such as 1.4.2{hint}"));
    } else if text.contains('+') {
        cursor.warning("write `_` for `+`, as tags in a registry need it");
    }
    stored
}

/// A revision as registries store it; `None` if it is not a version.
pub(super) fn stored_revision(text: &str) -> Option<String> {
    let valid = !(text.contains('_') && text.contains('+')) && text.matches('_').count() <= 1;
    (valid && semver::Version::parse(&text.replacen('_', "+", 1)).is_ok()).then(|| text.replace('+', "_"))
}

/// `##m##s`; one of the parts alone is accepted with a warning (AD-03, W-22).
fn timeout(cursor: &Cursor<'_>) -> Option<Timeout> {
    let text = cursor.text()?;
    let (minutes, seconds) = match text.split_once('m') {
        Some((minutes, seconds)) => (Some(minutes), seconds),
        None => (None, text.as_str()),
    };
    let number =
        |digits: &str| digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse::<u64>().ok()).flatten();
    let minutes_read = minutes.map_or(Some(0), number);
    let seconds_read = match seconds {
        "" if minutes.is_some() => Some(0),
        _ => seconds.strip_suffix('s').and_then(number),
    };
    let total =
        minutes_read.zip(seconds_read).and_then(|(minutes, seconds)| minutes.checked_mul(60)?.checked_add(seconds));
    let Some(total) = total else {
        cursor.error(format!("`{}` is not a time: write minutes and seconds such as 8m30s", shown(&text)));
        return None;
    };
    if minutes.is_none() || seconds.is_empty() {
        cursor.warning(format!("write minutes and seconds: {}", Timeout { seconds: total }));
    }
    Some(Timeout { seconds: total })
}
