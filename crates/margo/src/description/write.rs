//! Writing an ApplicationDescription of generation B.

use super::{
    ApplicationDescription, ApplicationMetadata, Author, Catalog, Component, ComponentSource, DeploymentProfile,
    Metadata, Organization,
};
use crate::parameters;
use crate::tree::{Members, Tree};

pub(super) fn description(description: &ApplicationDescription) -> Tree {
    let parameters =
        (!description.parameters.is_empty()).then(|| parameters::write::parameters(&description.parameters));
    Members::new()
        .with("apiVersion", "v1")
        .with("id", description.id.as_str())
        .with("metadata", metadata(&description.metadata))
        .with("deploymentProfiles", Tree::list(description.deployment_profiles.iter().map(profile)))
        .with_some("parameters", parameters)
        .with_some("configuration", description.configuration.as_ref().map(parameters::write::configuration))
        .with_all(&description.extensions)
        .build()
}

fn metadata(metadata: &Metadata) -> Tree {
    Members::new()
        .with("name", &metadata.name)
        .with_some("description", metadata.description.as_ref())
        .with("version", &metadata.version)
        .with("catalog", catalog(&metadata.catalog))
        .build()
}

fn catalog(catalog: &Catalog) -> Tree {
    let authors = (!catalog.author.is_empty()).then(|| Tree::list(catalog.author.iter().map(author)));
    Members::new()
        .with_some("application", catalog.application.as_ref().map(application))
        .with_some("author", authors)
        .with("organization", Tree::list(catalog.organization.iter().map(organization)))
        .build()
}

fn application(application: &ApplicationMetadata) -> Tree {
    Members::new()
        .with_some("descriptionFile", application.description_file.as_ref())
        .with_some("icon", application.icon.as_ref())
        .with_some("licenseFile", application.license_file.as_ref())
        .with_some("releaseNotes", application.release_notes.as_ref())
        .with_some("site", application.site.as_ref())
        .with_some("tagline", application.tagline.as_ref())
        .with_some("tags", (!application.tags.is_empty()).then(|| Tree::list(&application.tags)))
        .build()
}

fn author(author: &Author) -> Tree {
    Members::new().with_some("name", author.name.as_ref()).with_some("email", author.email.as_ref()).build()
}

fn organization(organization: &Organization) -> Tree {
    Members::new().with("name", &organization.name).with_some("site", organization.site.as_ref()).build()
}

fn profile(profile: &DeploymentProfile) -> Tree {
    Members::new()
        .with("type", profile.profile_type.as_str())
        .with("id", &profile.id)
        .with_some("description", profile.description.as_ref())
        .with("components", Tree::list(profile.components.iter().map(component)))
        .with_some("deviceConstraints", profile.device_constraints.as_ref().map(|constraints| &constraints.raw))
        .with_all(&profile.extensions)
        .build()
}

pub(crate) fn component(component: &Component) -> Tree {
    let properties = match &component.properties.source {
        ComponentSource::Oci { repository, revision } => {
            Members::new().with("repository", repository).with("revision", revision)
        }
        // Generation B has no equivalent, so the older form is written unchanged (W-22).
        ComponentSource::Location { package_location, key_location } => {
            Members::new().with("packageLocation", package_location).with_some("keyLocation", key_location.as_ref())
        }
    };
    let properties = properties
        .with_some("wait", component.properties.wait)
        .with_some("timeout", component.properties.timeout.map(|timeout| timeout.to_string()));
    Members::new().with("name", &component.name).with("properties", properties).with_all(&component.extensions).build()
}
