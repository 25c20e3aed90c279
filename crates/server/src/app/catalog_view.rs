//! The catalog as shown on pages: description, requirements in plain words, deployments, compatibility.

use super::applications::{self, application_id};
use super::compatibility;
use super::devices;
use super::error::{AppError, AppResult};
use super::overview;
use crate::state::ServerState;
use margo::constraints::{DeviceConstraints, Selector, Subject};
use margo::description::{ApplicationDescription, ComponentSource, DeploymentProfile, ProfileType};
use margo::quantity;
use margrave_api::applications as wire;
use margrave_api::summary::Counts;
use margrave_core::model::ApplicationVersion;
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of applications searched; a catalog has a few dozen.
const APPLICATIONS_MAX: u32 = 1000;

/// One application of the catalog page.
#[derive(Debug, Clone)]
pub struct CatalogEntry {
    pub id: String,
    pub name: String,
    pub tagline: Option<String>,
    pub vendor: String,
    pub newest: String,
    pub versions: u32,
    pub icon: bool,
    pub tags: Vec<String>,
    /// How it is installed: `Helm chart`, `Docker Compose`.
    pub types: Vec<String>,
    /// Deployments of any version.
    pub uses: u64,
    /// Compatibility of the newest version with the requested device.
    pub compatibility: Option<wire::DeviceCompatibility>,
}

/// The filters of the catalog page.
#[derive(Debug, Clone, Default)]
pub struct Search {
    pub text: Option<String>,
    pub tag: Option<String>,
    /// Client and device: also determine the compatibility.
    pub device: Option<(String, String)>,
}

/// Matching applications, and all tags.
pub async fn list(state: &ServerState, search: &Search) -> AppResult<(Vec<CatalogEntry>, Vec<String>)> {
    let rows = state.store.applications_page(None, APPLICATIONS_MAX).await?;
    let overview = overview::get(state).await?;
    let device = match &search.device {
        Some((client, device)) => {
            let key = devices::key(client, device)?;
            Some(state.store.device_get(&key).await?.ok_or_else(|| devices::missing(&key))?)
        }
        None => None,
    };
    let text = search.text.as_deref().unwrap_or_default().to_lowercase();
    let (mut catalog_view, mut all_tags) = (Vec::new(), BTreeSet::new());
    for (version, versions) in rows {
        let description = state.descriptions.get(&state.store, &version).await?;
        let tags = tags(&description);
        all_tags.extend(tags.iter().cloned());
        if search.tag.as_ref().is_some_and(|tag| !tags.contains(tag)) || !matches(&version, &tags, &text) {
            continue;
        }
        let mut types: Vec<String> = Vec::new();
        for profile in &description.deployment_profiles {
            let word = kind(profile.profile_type).to_owned();
            if !types.contains(&word) {
                types.push(word);
            }
        }
        catalog_view.push(CatalogEntry {
            id: version.application.to_string(),
            uses: overview.uses.get(version.application.as_str()).map_or(0, total),
            compatibility: device.as_ref().map(|device| compatibility::evaluate(&description, device, None)),
            icon: version.resources.iter().any(|resource| resource.kind == "icon"),
            name: version.name,
            tagline: version.tagline,
            vendor: version.vendor,
            newest: version.version,
            versions,
            tags,
            types,
        });
    }
    catalog_view.sort_by_key(|one| one.name.to_lowercase());
    Ok((catalog_view, all_tags.into_iter().collect()))
}

fn total(versions: &BTreeMap<String, Counts>) -> u64 {
    versions.values().flat_map(|counts| counts.0.values()).sum()
}

fn matches(version: &ApplicationVersion, tags: &[String], text: &str) -> bool {
    let has = |field: &str| field.to_lowercase().contains(text);
    text.is_empty()
        || has(&version.name)
        || has(version.application.as_str())
        || has(&version.vendor)
        || version.tagline.as_deref().is_some_and(has)
        || tags.iter().any(|tag| has(tag))
}

fn tags(description: &ApplicationDescription) -> Vec<String> {
    description.metadata.catalog.application.as_ref().map(|known| known.tags.clone()).unwrap_or_default()
}

/// One version with all its details.
#[derive(Debug, Clone)]
pub struct Detail {
    pub version: wire::ApplicationVersion,
    /// Components that no registry is known to have; not repeated in the warnings.
    pub unserved: Vec<String>,
    /// All versions, newest import first.
    pub versions: Vec<wire::ApplicationVersion>,
    pub tags: Vec<String>,
    pub site: Option<String>,
    pub authors: Vec<String>,
    pub summary: Option<String>,
    /// Markdown.
    pub description: Option<Vec<u8>>,
    /// Markdown.
    pub notes: Option<Vec<u8>>,
    /// Text.
    pub license: Option<Vec<u8>>,
    pub profiles: Vec<Profile>,
    /// Deployments by version and state.
    pub deployments: BTreeMap<String, Counts>,
}

/// One deployment profile.
#[derive(Debug, Clone)]
pub struct Profile {
    pub id: String,
    pub kind: String,
    pub description: Option<String>,
    /// Name, source, timeout.
    pub components: Vec<(String, String, Option<String>)>,
    /// In plain words.
    pub needs: Vec<String>,
}

/// The version named, or the newest.
pub async fn detail(state: &ServerState, id: &str, version: Option<&str>) -> AppResult<Detail> {
    let versions = applications::versions(state, id).await?;
    let chosen = match version {
        Some(requested) => versions.iter().find(|known| known.version == requested).cloned(),
        None => versions.first().cloned(),
    };
    let mut chosen = chosen.ok_or_else(|| {
        AppError::not_found(format_args!("version `{}` of application `{id}`", version.unwrap_or_default()))
    })?;
    let (stored, description) = applications::described(state, &application_id(id)?, &chosen.version).await?;
    let check = crate::catalog::registry_check::last_result(state, &stored.description_digest);
    let unserved: Vec<String> =
        check.into_iter().flat_map(|check| check.problems).map(|problem| problem.text).collect();
    chosen.warnings.retain(|warning| !unserved.contains(warning));
    let text = async |kind: &str| -> AppResult<Option<Vec<u8>>> {
        if chosen.resources.iter().any(|resource| resource.kind == kind) {
            return Ok(Some(applications::resource(state, id, &chosen.version, kind).await?.1));
        }
        Ok(None)
    };
    let catalog = &description.metadata.catalog;
    let author = |author: &margo::description::Author| match (&author.name, &author.email) {
        (Some(name), Some(mail)) => Some(format!("{name} <{mail}>")),
        (name, mail) => name.clone().or_else(|| mail.clone()),
    };
    Ok(Detail {
        tags: tags(&description),
        site: catalog.application.as_ref().and_then(|known| known.site.clone()),
        authors: catalog.author.iter().filter_map(author).collect(),
        summary: description.metadata.description.clone(),
        description: text("descriptionFile").await?,
        notes: text("releaseNotes").await?,
        license: text("licenseFile").await?,
        profiles: description.deployment_profiles.iter().map(profile).collect(),
        deployments: overview::get(state).await?.uses.get(id).cloned().unwrap_or_default(),
        unserved,
        versions,
        version: chosen,
    })
}

fn profile(profile: &DeploymentProfile) -> Profile {
    let source = |source: &ComponentSource| match source {
        ComponentSource::Oci { repository, revision } => format!("{repository} {revision}"),
        ComponentSource::Location { package_location, .. } => package_location.clone(),
    };
    Profile {
        id: profile.id.clone(),
        kind: kind(profile.profile_type).to_owned(),
        description: profile.description.clone(),
        components: profile
            .components
            .iter()
            .map(|component| {
                let time = component.properties.timeout.map(|timeout| minutes(timeout.seconds));
                (component.name.clone(), source(&component.properties.source), time)
            })
            .collect(),
        needs: needs(profile.profile_type, profile.device_constraints.as_ref()),
    }
}

pub(crate) fn kind(kind: ProfileType) -> &'static str {
    match kind {
        ProfileType::Helm => "Helm chart",
        ProfileType::Compose => "Docker Compose",
        ProfileType::Custom => "Custom",
    }
}

/// Requirements of a device.
fn needs(profile_type: ProfileType, constraints: Option<&DeviceConstraints>) -> Vec<String> {
    let mut needs = vec![match profile_type {
        ProfileType::Helm => "Kubernetes with Helm".to_owned(),
        ProfileType::Compose => "a container engine with Compose".to_owned(),
        ProfileType::Custom => "a runtime of the supplier's own".to_owned(),
    }];
    let Some(constraints) = constraints else { return needs };
    if let Some(capacity) = &constraints.capacity {
        if let Some(cpu) = &capacity.cpu {
            let cores = if (cpu.cores - 1.0).abs() < f64::EPSILON {
                "1 core".to_owned()
            } else {
                format!("{} cores", cpu.cores)
            };
            let of = cpu.architectures.as_ref().map_or_else(String::new, |list| format!(", {}", list.join(" or ")));
            needs.push(format!("{cores}{of}"));
        }
        needs.extend(capacity.memory.iter().map(|memory| format!("{} of memory", readable(memory))));
        needs.extend(capacity.storage.iter().map(|storage| format!("{} of storage", readable(storage))));
    }
    let rules = constraints.eligibility_rules.as_deref().unwrap_or_default();
    let words: Vec<String> = rules
        .iter()
        .map(|rule| {
            let labels = rule.label_selector.iter().flat_map(|selector| clauses(Subject::Label, selector));
            let properties = rule.property_selector.iter().flat_map(|selector| clauses(Subject::Property, selector));
            labels.chain(properties).collect::<Vec<_>>().join(" and ")
        })
        .filter(|words| !words.is_empty())
        .collect();
    if !words.is_empty() {
        needs.push(words.join(", or "));
    }
    needs
}

fn clauses(subject: Subject, selector: &Selector) -> impl Iterator<Item = String> + '_ {
    selector.match_expressions.iter().map(move |expression| expression.needs(subject))
}

fn minutes(seconds: u64) -> String {
    let count = |number: u64, noun: &str| match number {
        0 => None,
        1 => Some(format!("1 {noun}")),
        number => Some(format!("{number} {noun}s")),
    };
    let parts: Vec<String> =
        [count(seconds / 60, "minute"), count(seconds % 60, "second")].into_iter().flatten().collect();
    parts.join(" ")
}

/// A quantity as people write it.
fn readable(text: &str) -> String {
    quantity::parse_bytes(text).map_or_else(|| text.to_owned(), quantity::words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn describes_requirements_in_plain_words() {
        let yaml = include_bytes!("../../../../samples/line-monitor/1.1.0/margo.yaml");
        let description = ApplicationDescription::read(yaml).unwrap().document;
        let words = profile(&description.deployment_profiles[0]);
        assert_eq!(
            words.needs,
            ["Kubernetes with Helm", "1 core, amd64 or arm64", "512 MiB of memory", "2 GiB of storage"]
        );
        assert_eq!(words.components[0].2.as_deref(), Some("5 minutes"));
    }
}
