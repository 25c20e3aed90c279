//! One application: description, requirements, deployments.

use super::catalog_view::{CompatibilityCheck, badge};
use crate::app::catalog_view::{self, Detail};
use crate::app::error::AppError;
use crate::app::{applications, drafts, value_format, versions};
use crate::ui::chart;
use crate::ui::confirm::{Confirmation, confirm};
use crate::ui::form::Posted;
use crate::ui::markdown;
use crate::ui::markup::{Markup, prose};
use crate::ui::routes::query::{Params, link};
use crate::ui::visit::{PageResult, Section, Shell, Visit, go, pages};
use crate::ui::words;
use askama::Template;
use axum::extract::Path;
use axum::response::IntoResponse as _;
use http::{HeaderValue, header};
use margrave_api::summary::Counts;

/// Supported icon formats, by the last part of the media type (`application/vnd.margo.app.icon.v1+svg`).
const PICTURES: [(&str, &str); 6] = [
    ("svg", "image/svg+xml"),
    ("png", "image/png"),
    ("jpeg", "image/jpeg"),
    ("jpg", "image/jpeg"),
    ("webp", "image/webp"),
    ("gif", "image/gif"),
];
/// An image from a package runs no scripts and loads nothing, wherever it is opened.
const PICTURE_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; sandbox";

#[derive(Template)]
#[template(path = "catalog/application.html", blocks = ["live", "nav"])]
#[expect(clippy::struct_excessive_bools, reason = "independent facts a template asks for")]
struct ApplicationPage {
    shell: Shell,
    detail: Detail,
    description: Option<Markup>,
    notes: Option<Markup>,
    license: Option<String>,
    sections: Vec<drafts::Section>,
    running: Vec<Running>,
    total: u64,
    /// Deployments on other versions than this one.
    older: u64,
    /// All of them are newer, so this is a downgrade.
    back: bool,
    /// Deployments on this version.
    this: u64,
    icon: bool,
    device: String,
    compatibility: Option<CompatibilityCheck>,
    compatibility_link: String,
    /// Unreachable components; not rendered with application names, because a component may have the same id.
    unserved: Vec<Markup>,
    /// This server checks registries for components.
    asks: bool,
    /// This server has a registry to which components can be copied.
    hosts: bool,
}
pages!(ApplicationPage);

/// Deployments of one version.
struct Running {
    version: String,
    count: u64,
    bar: Markup,
    legend: Markup,
    link: String,
}

impl ApplicationPage {
    /// The default value, if it may be shown.
    #[expect(clippy::unused_self, reason = "templates call it so")]
    fn default_of(&self, parameter: &drafts::ParameterField) -> Option<String> {
        parameter.default.as_ref().filter(|value| !value_format::plain(value).is_empty()).map(value_format::answer)
    }

    /// The description already says that the value cannot be changed.
    #[expect(clippy::unused_self, reason = "templates call it so")]
    fn says_so(&self, parameter: &drafts::ParameterField) -> bool {
        parameter.description.as_ref().is_some_and(|text| text.contains("cannot be changed"))
    }

    /// A summary line for files of the package that the catalog does not store.
    fn skipped(&self) -> String {
        let number = self.detail.version.skipped.len() as u64;
        let are = if number == 1 { "is" } else { "are" };
        format!("{} of the package {are} not needed by the catalog", words::count(number, "file"))
    }
}

pub(in crate::ui) async fn show(visit: Visit, params: Params, Path(id): Path<String>) -> PageResult {
    let state = &visit.state;
    let version = params.get("version");
    let detail = catalog_view::detail(state, &id, version.as_deref()).await?;
    if params.get("ask").as_deref() == Some("delete") {
        return ask_to_delete(&visit, &detail).await;
    }
    let name = detail.version.name.clone();
    let shown = detail.version.version.clone();
    let draft = drafts::Draft::new(drafts::Kind::Create, id.clone(), shown.clone());
    let described = drafts::description(state, &draft).await?;
    let running: Vec<Running> = detail
        .deployments
        .iter()
        .map(|(version, counts)| Running {
            count: counts.0.values().sum(),
            bar: chart::state_bar(counts),
            legend: chart::state_legend(counts),
            link: link("/deployments", &[("application", &id), ("version", version)]),
            version: version.clone(),
        })
        .filter(|running| running.count > 0)
        .collect();
    let device = params.text("device");
    let compatibility = match device.split_once('/') {
        Some((client, device)) => {
            let search = catalog_view::Search {
                device: Some((client.to_owned(), device.to_owned())),
                ..catalog_view::Search::default()
            };
            let (all, _) = catalog_view::list(state, &search).await?;
            all.into_iter().find(|one| one.id == id).and_then(|one| one.compatibility.as_ref().map(badge))
        }
        None => None,
    };
    let unserved = detail.unserved.iter().map(|text| prose(&words::capital(text))).collect();
    let page = ApplicationPage {
        shell: visit.shell(Section::Catalog, format!("{name} {shown}")).await?,
        description: detail.description.as_deref().map(markdown::html),
        notes: detail.notes.as_deref().map(markdown::html),
        license: detail.license.as_deref().map(|bytes| String::from_utf8_lossy(bytes).into_owned()),
        sections: drafts::sections(&described, None),
        total: running.iter().map(|one| one.count).sum(),
        back: running.iter().filter(|one| one.version != shown).all(|one| versions::is_older(&shown, &one.version)),
        this: running.iter().filter(|one| one.version == shown).map(|one| one.count).sum(),
        older: running.iter().filter(|one| one.version != shown).map(|one| one.count).sum(),
        running,
        icon: detail.version.resources.iter().any(|resource| resource.kind == "icon"),
        compatibility_link: link(&format!("/catalog/{id}/compatibility"), &[("version", &shown)]),
        device,
        compatibility,
        detail,
        unserved,
        asks: state.config.catalog.check_registries,
        hosts: state.registry.is_some(),
    };
    visit.show(&page)
}

async fn ask_to_delete(visit: &Visit, detail: &Detail) -> PageResult {
    let (id, version) = (&detail.version.id, &detail.version.version);
    let back = link(&format!("/catalog/{id}"), &[("version", version)]);
    let used = detail.deployments.get(version).map(Counts::total).unwrap_or_default();
    if used > 0 {
        let confirmation = Confirmation {
            title: format!("{} {version} cannot be removed from the catalog", detail.version.name),
            text: vec![format!(
                "It has {}. Upgrade or downgrade those devices, or remove it from them first; the application page lists its deployments.",
                words::count(used, "deployment"),
            )],
            back,
            ..Confirmation::default()
        };
        return confirm(visit, Section::Catalog, confirmation).await;
    }
    let confirmation = Confirmation {
        title: format!("Remove {} {version} from the catalog?", detail.version.name),
        text: vec!["It can no longer be deployed.".to_owned()],
        devices: Some(0),
        action: format!("/catalog/{id}"),
        fields: vec![("action", "delete".to_owned()), ("version", version.clone())],
        verb: "remove-version",
        button: "Remove from the catalog".to_owned(),
        danger: true,
        back,
    };
    confirm(visit, Section::Catalog, confirmation).await
}

pub(in crate::ui) async fn act(Path(id): Path<String>, posted: Posted) -> PageResult {
    let version = posted.form.text("version").to_owned();
    if posted.form.text("action") == "ask" {
        let checked = applications::check_components(posted.state(), &id, &version).await?;
        let notice = match checked.components_checked.filter(|check| check.missing + check.unknown > 0) {
            Some(_) => ("components-missing", "Checked the registries: not all components were found."),
            None => ("components-found", "Checked the registries: all components were found."),
        };
        return Ok(go(&link(&format!("/catalog/{id}"), &[("version", &version)]), Some(notice)));
    }
    applications::delete_version(posted.state(), posted.caller(), &id, &version, posted.comment()).await?;
    let notice = format!("Version {version} was removed from the catalog.");
    let left = applications::versions(posted.state(), &id).await.is_ok();
    Ok(go(&if left { format!("/catalog/{id}") } else { "/catalog".to_owned() }, Some(("version-removed", &notice))))
}

/// An icon from a package, served as an image only.
pub(in crate::ui) async fn icon(visit: Visit, params: Params, Path(id): Path<String>) -> PageResult {
    let version = params.text("version");
    let (media_type, bytes) = applications::resource(&visit.state, &id, &version, "icon").await?;
    let form = media_type.trim_end_matches("+xml").rsplit(['+', '/']).next().unwrap_or_default();
    let Some((_, kind)) = PICTURES.into_iter().find(|(known, _)| *known == form) else {
        return Err(AppError::not_found("an icon in a supported image format").into());
    };
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(kind)),
        (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(PICTURE_POLICY)),
        (header::CACHE_CONTROL, HeaderValue::from_static("private, max-age=3600")),
    ];
    Ok((headers, bytes).into_response())
}
