//! `margrave app`: the catalog.

mod copy;
mod import;
mod push;
mod registry_args;

pub(crate) use push::own_connection;
pub(crate) use registry_args::RegistryArgs;

use super::{CommentArgs, LimitArgs, Session, YesArgs, device_name, every};
use crate::clock;
use crate::failure::{Exit, Failure, Outcome};
use crate::output::Output;
use crate::prompt::plain;
use margrave_api::applications::{
    ApplicationDetail, ApplicationVersion, Compatibility, DeviceCompatibility, Parameter, Parameters,
};
use std::fmt::Write as _;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum AppCommand {
    /// Show all applications in the catalog
    #[command(visible_alias = "ls")]
    List(LimitArgs),
    /// Show one application: versions, profiles, deployments
    Show {
        /// Application id
        application: String,
    },
    /// Explain an application: where it runs, where it could run, pending work, blockers
    Explain {
        /// Application id
        application: String,
    },
    /// Show the differences between two versions
    Diff {
        /// Application id
        application: String,
        /// Version to compare from
        from: String,
        /// Version to compare with [default: newest]
        to: Option<String>,
    },
    /// Add a package from a folder, an archive, an OCI layout or a registry
    Import(import::ImportArgs),
    /// Build a package, chart or compose archive from a folder and push it
    Push(push::PushArgs),
    /// Check again whether the registries have the components
    #[command(after_help = "Example:
  margrave app check line-monitor")]
    Check {
        /// Application id
        application: String,
        /// Version [default: newest]
        version: Option<String>,
    },
    /// Show for every device whether it can run the application, and why
    #[command(after_help = "Examples:
  margrave app compatibility line-monitor
  margrave app compatibility line-monitor 1.0.0 --selector site=graz --reasons
  margrave app compatibility vibration-analytics -o json")]
    Compatibility {
        /// Application id
        application: String,
        /// Version [default: newest]
        version: Option<String>,
        /// Only devices with these labels, such as `site=graz,line in (1,2)`
        #[arg(long, short = 'l', value_name = "SELECTOR")]
        selector: Option<String>,
        /// Show every rule, not only the deciding ones
        #[arg(long)]
        reasons: bool,
        #[command(flatten)]
        limit: LimitArgs,
    },
    /// Show the parameters of an application
    Parameters {
        /// Application id
        application: String,
        /// Version [default: newest]
        version: Option<String>,
        /// Only the parameters of this profile
        #[arg(long)]
        profile: Option<String>,
    },
    /// Remove a version that has no deployments
    #[command(visible_alias = "rm")]
    #[command(after_help = "Examples:
  margrave app delete line-monitor@1.0.0
  margrave app delete line-monitor 1.0.0 --yes")]
    Delete {
        /// Application id, with @VERSION unless the version follows
        #[arg(value_name = "APPLICATION[@VERSION]")]
        application: String,
        /// Version to remove
        version: Option<String>,
        #[command(flatten)]
        reason: CommentArgs,
        #[command(flatten)]
        yes: YesArgs,
    },
}

pub(crate) async fn run(command: AppCommand, session: &Session) -> Outcome {
    match command {
        AppCommand::List(limit) => list(session, &limit).await,
        AppCommand::Show { application } => show(session, &application).await,
        AppCommand::Explain { application } => {
            let explanation = session.api.explain_application(&application).await?;
            session.out.show(&explanation, |out| super::explain::render(out, &explanation))
        }
        AppCommand::Diff { application, from, to } => {
            let to = version_or_newest(session, &application, to).await?;
            let diff = session.api.application_diff(&application, &from, &to).await?;
            session.out.show(&diff, |out| super::diff::application(out, &diff))
        }
        AppCommand::Import(args) => import::run(session, args).await,
        AppCommand::Push(args) => push::run(session, args).await,
        AppCommand::Check { application, version } => check(session, &application, version).await,
        AppCommand::Compatibility { application, version, selector, reasons, limit } => {
            compatibility(session, &application, version, selector.as_deref(), reasons, &limit).await
        }
        AppCommand::Parameters { application, version, profile } => {
            let version = version_or_newest(session, &application, version).await?;
            let parameters = session.api.application_parameters(&application, &version, profile.as_deref()).await?;
            session.out.show(&parameters, |out| render_parameters(out, &parameters))
        }
        AppCommand::Delete { application, version, reason, yes } => {
            let (application, version) = one_version(&application, version)?;
            session.sure(&format!("Remove {application} {version} from the catalog?"), &yes)?;
            session.api.delete_application_version(&application, &version, reason.comment.as_deref()).await?;
            session.out.say(format!("Removed {application} {version} from the catalog."));
            Ok(())
        }
    }
}

/// `APPLICATION@VERSION`, or both apart.
fn one_version(application: &str, version: Option<String>) -> Outcome<(String, String)> {
    match (application.split_once('@'), version) {
        (Some((application, version)), None) => Ok((application.to_owned(), version.to_owned())),
        (None, Some(version)) => Ok((application.to_owned(), version)),
        (Some(_), Some(_)) => Err(Failure::usage("the version is given twice").next("write it once")),
        (None, None) => Err(Failure::usage("the version is missing").next(format!(
            "margrave app delete {application}@VERSION; `margrave app show {application}` lists versions"
        ))),
    }
}

async fn check(session: &Session, application: &str, version: Option<String>) -> Outcome {
    let version = version_or_newest(session, application, version).await?;
    let checked = session.api.check_application_components(application, &version).await?;
    let Some(components) = &checked.components_checked else {
        return Err(Failure::failed("the server did not return the result of the registry check"));
    };
    let (there, open) =
        (components.artifacts - components.missing - components.unknown, components.missing + components.unknown);
    session.out.show(&checked, |_| {
        let mut text =
            format!("{there} of {} components of {application} {version} are available.\n", components.artifacts);
        for warning in &checked.warnings {
            let _ = writeln!(text, "{warning}");
        }
        text
    })?;
    if open == 0 {
        return Ok(());
    }
    session.out.say(BRING);
    if components.missing > 0 { Err(Failure::failed("devices cannot pull every component")) } else { Ok(()) }
}

/// Advice for components that are missing in their registry.
pub(crate) const BRING: &str = "\
Add them to the embedded registry: `margrave app push FOLDER` pushes them from the package folder,
`margrave app import oci://... --with-images` copies them from another registry.";

async fn list(session: &Session, limit: &LimitArgs) -> Outcome {
    let applications = every(limit.get(), async |page| session.api.applications(&page).await).await?;
    if applications.is_empty() {
        session.out.say("The catalog is empty; `margrave app import FOLDER` adds a package.");
    }
    session.out.show(&applications, |out| {
        out.table(
            &["application", "newest", "versions", "name", "vendor"],
            applications.iter().map(|application| {
                vec![
                    application.id.clone(),
                    application.newest_version.clone(),
                    application.versions.to_string(),
                    application.name.clone(),
                    application.vendor.clone(),
                ]
            }),
        )
    })
}

async fn show(session: &Session, application: &str) -> Outcome {
    let detail = session.api.application(application).await?;
    session.out.show(&detail, |out| render_detail(out, &detail))
}

fn render_detail(out: Output, detail: &ApplicationDetail) -> String {
    let now = clock::now();
    let newest = detail.versions.first();
    let mut text = out.fields(&[
        ("Application", detail.id.clone()),
        ("Name", detail.name.clone()),
        ("Tagline", newest.and_then(|version| version.tagline.clone()).unwrap_or_default()),
        ("Vendor", newest.map(|version| version.vendor.clone()).unwrap_or_default()),
    ]);
    text.push_str(&out.heading("Versions"));
    text.push_str(&out.table(
        &["version", "profiles", "imported", "from", "deployments"],
        detail.versions.iter().map(|version| {
            let profiles = version.profiles.iter().map(|profile| format!("{} ({})", profile.id, profile.profile_type));
            let counts = detail.deployments.get(&version.version).map(|counts| {
                let counts = counts.0.iter().filter(|(_, count)| **count > 0);
                counts.map(|(state, count)| format!("{count} {}", state.as_str())).collect::<Vec<_>>().join(", ")
            });
            vec![
                version.version.clone(),
                profiles.collect::<Vec<_>>().join(", "),
                clock::ago(&version.imported_at, now),
                version.source.clone(),
                counts.filter(|counts| !counts.is_empty()).unwrap_or_else(|| "none".to_owned()),
            ]
        }),
    ));
    for version in &detail.versions {
        for warning in &version.warnings {
            let _ = writeln!(text, "{}: {warning}", version.version);
        }
        if let Some(line) = skipped(version) {
            let _ = writeln!(text, "{}: {line}", version.version);
        }
    }
    text
}

/// One line about package files that the catalog does not use.
fn skipped(version: &ApplicationVersion) -> Option<String> {
    let files = match version.skipped.len() {
        0 => return None,
        1 => "1 file".to_owned(),
        number => format!("{number} files"),
    };
    Some(format!("ignored {files} that the catalog does not use (-o json lists them)"))
}

/// The given version, or the newest one in the catalog.
pub(crate) async fn version_or_newest(
    session: &Session,
    application: &str,
    version: Option<String>,
) -> Outcome<String> {
    if let Some(version) = version {
        return Ok(version);
    }
    let missing = |failure: Failure| {
        failure.next("`margrave app list` lists applications, `margrave app import FOLDER` adds a package")
    };
    match session.api.application(application).await {
        Ok(detail) => match detail.versions.into_iter().next() {
            Some(newest) => Ok(newest.version),
            None => Err(missing(Failure::new(Exit::NotFound, format!("application `{application}` has no versions")))),
        },
        Err(error) if error.code() == Some("not-found") => Err(missing(error.into())),
        Err(error) => Err(error.into()),
    }
}

async fn compatibility(
    session: &Session,
    application: &str,
    version: Option<String>,
    selector: Option<&str>,
    reasons: bool,
    limit: &LimitArgs,
) -> Outcome {
    let version = version_or_newest(session, application, version).await?;
    let compatibilities = every(limit.get(), async |page| {
        session.api.application_compatibility(application, &version, selector, &page).await
    })
    .await?;
    session.out.show(&compatibilities, |out| {
        let mut text = out.table(
            &["device", "compatibility", "profile", "reasons"],
            compatibilities.iter().map(|compatibility| {
                let why = if reasons { all_reasons(compatibility) } else { deciding_reasons(compatibility) };
                vec![
                    device_name(&compatibility.device.client, &compatibility.device.device),
                    outcome_word(compatibility.outcome).to_owned(),
                    compatibility.profile.clone().unwrap_or_else(|| "-".to_owned()),
                    why,
                ]
            }),
        );
        let count = |outcome| compatibilities.iter().filter(|compatibility| compatibility.outcome == outcome).count();
        let _ = writeln!(
            text,
            "\n{application} {version}: {} compatible, {} incompatible, {} unknown{}",
            count(Compatibility::Compatible),
            count(Compatibility::Incompatible),
            count(Compatibility::Unknown),
            if reasons { "" } else { "; --reasons shows every rule" }
        );
        text
    })
}

pub(crate) fn outcome_word(outcome: Compatibility) -> &'static str {
    match outcome {
        Compatibility::Compatible => "compatible",
        Compatibility::Incompatible => "incompatible",
        Compatibility::Unknown => "unknown",
    }
}

/// The failed and unknown rules of each profile; empty for a compatible device (`--reasons` shows all rules).
fn deciding_reasons(compatibility: &DeviceCompatibility) -> String {
    if compatibility.outcome == Compatibility::Compatible {
        return String::new();
    }
    let several = compatibility.profiles.len() > 1;
    let mut whys: Vec<String> = Vec::new();
    for profile in &compatibility.profiles {
        let reasons: Vec<_> = profile
            .reasons
            .iter()
            .filter(|reason| reason.outcome != Compatibility::Compatible)
            .map(|reason| reason.message.as_str())
            .collect();
        let prefix = if several { format!("{}: ", profile.profile_type) } else { String::new() };
        whys.push(format!("{prefix}{}", reasons.join("; ")));
    }
    whys.join("; ")
}

fn all_reasons(compatibility: &DeviceCompatibility) -> String {
    let reasons = compatibility.profiles.iter().flat_map(|profile| {
        profile.reasons.iter().map(move |reason| {
            let sign = match reason.outcome {
                Compatibility::Compatible => "+",
                Compatibility::Incompatible => "-",
                Compatibility::Unknown => "?",
            };
            format!("{sign} {}: {}", profile.profile, reason.message)
        })
    });
    reasons.collect::<Vec<_>>().join("\n")
}

fn render_parameters(out: Output, parameters: &Parameters) -> String {
    let mut text = String::new();
    for section in &parameters.sections {
        text.push_str(&out.heading(&section.name));
        text.push_str(&out.table(
            &["parameter", "type", "default", "rules", "description"],
            section.parameters.iter().map(parameter_row),
        ));
    }
    if text.is_empty() { "No parameters.\n".to_owned() } else { text.trim_start().to_owned() }
}

fn parameter_row(definition: &Parameter) -> Vec<String> {
    let default = match &definition.default {
        Some(_) if definition.sensitive => "(set)".to_owned(),
        Some(default) if plain(default).is_empty() => "(empty)".to_owned(),
        Some(default) => plain(default),
        None if definition.allow_empty => "(empty)".to_owned(),
        None => "required".to_owned(),
    };
    let mut rules = definition.rules.clone();
    if definition.immutable {
        rules.push("cannot be changed later".to_owned());
    }
    let description = definition.description.as_ref().map(|text| format!(": {text}")).unwrap_or_default();
    vec![
        definition.parameter.clone(),
        definition.data_type.clone(),
        default,
        rules.join("; "),
        format!("{}{description}", definition.name),
    ]
}
