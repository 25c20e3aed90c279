//! `margrave app push`: from a folder to a registry and into the catalog.

mod folder;
mod plan;
mod progress;

use super::super::{CommentArgs, Session};
use super::registry_args::RegistryArgs;
use crate::failure::{Exit, Failure, Outcome};
use margo::package::Package;
use margrave_api::applications::Imported;
use margrave_oci::build::MANIFEST_MEDIA_TYPE;
use margrave_oci::client::Pushed;
use margrave_oci::{Connection, Credentials, Kind, OciError, Reference, Registry};
use plan::{Options, Plan, Planned, Target};
use progress::Progress;
use serde::Serialize;
use std::fmt::Write as _;
use std::path::PathBuf;

#[expect(clippy::struct_excessive_bools, reason = "independent switches of a command")]
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  margrave app push ./line-monitor                   # margo.yaml: a package, with its components
  margrave app push ./charts/press                   # Chart.yaml: a Helm chart
  margrave app push ./stack --version 1.0.0          # compose.yaml: a compose archive
  margrave app push ./objects --version 1.0.0        # manifests/*.yaml: plain Kubernetes manifests
  margrave app push ./press-image.tar                # an image, as `docker save` writes it (OCI layout)
  margrave app push ./line-monitor --to oci://registry.example/apps/line-monitor --username ci --password-stdin < pass

Without --to the target is the embedded registry: apps/ID, charts/NAME, compose/NAME or manifests/NAME,
tagged with the version.
Components in components/NAME/ are built and pushed too, to the repository that the description names. If that is in
another registry, the embedded registry stores them as a mirror under that name.
The same folder gives the same digest. Content already present is not sent again. An invalid package is not pushed.")]
pub(crate) struct PushArgs {
    /// Folder with margo.yaml, Chart.yaml, compose.yaml or manifests/, or a container image archive
    folder: PathBuf,
    /// Push to this repository, such as oci://registry.example/apps/line-monitor
    #[arg(long, value_name = "REF")]
    to: Option<String>,
    /// Version of a compose archive or of manifests, which do not contain one
    #[arg(long, value_name = "VERSION")]
    version: Option<String>,
    /// Skip components/
    #[arg(long)]
    no_components: bool,
    /// Do not add the package to the catalog
    #[arg(long)]
    no_import: bool,
    /// Replace an existing version that has different content
    #[arg(long)]
    force: bool,
    /// Build and show digests, but push nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    registry: RegistryArgs,
    #[command(flatten)]
    reason: CommentArgs,
}

/// The result.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    artifacts: Vec<Line>,
    #[serde(skip_serializing_if = "Option::is_none")]
    imported: Option<Imported>,
    warnings: Vec<String>,
    /// Components that were not in the folder.
    components_elsewhere: Vec<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    kind: &'static str,
    name: String,
    version: String,
    reference: String,
    digest: String,
    /// The reference that devices use, for an artifact mirrored from another registry.
    #[serde(skip_serializing_if = "Option::is_none")]
    stands_for: Option<String>,
    bytes: u64,
    blobs_sent: u64,
    blobs_present: u64,
    /// Whether the manifest was sent.
    manifest_sent: bool,
}

pub(crate) async fn run(session: &Session, args: PushArgs) -> Outcome {
    let (target, connection) = target(session, &args).await?;
    let options = Options { version: args.version.as_deref(), components: !args.no_components };
    let plan = plan::plan(&args.folder, &target, &options).map_err(|problems| broken(&args, problems))?;
    for warning in &plan.warnings {
        session.out.say(format!("warning: {warning}"));
    }
    let Plan { steps, package, warnings, elsewhere } = plan;
    let mut report = Report { artifacts: Vec::new(), imported: None, warnings, components_elsewhere: elsewhere };
    if args.dry_run {
        report.artifacts = steps.iter().map(|step| Line::of(step, &target.host)).collect();
        return session.out.show(&report, |_| render(&report, true));
    }
    let mut registry = Registry::new(&target.host, &connection).map_err(failure)?;
    reject_different_content(&mut registry, &steps, args.force).await?;
    let package = package.filter(|_| !args.no_import);
    let clashes = match &package {
        Some(package) => in_catalog_with_other_manifest(session, package, steps.last()).await?,
        None => false,
    };
    // If the catalog may reject the package, check before changing the registry.
    if clashes && let Some(package) = &package {
        import(session, package, &steps, &target.host, &args.reason).await?;
    }
    let mut progress = Progress::new(session.out, steps.iter().map(|step| step.artifact.bytes()).sum());
    for step in &steps {
        let line = push(&mut registry, step, &mut progress).await;
        report.artifacts.push(line.inspect_err(|_| progress.end())?);
    }
    progress.end();
    if let Some(package) = &package {
        report.imported = Some(import(session, package, &steps, &target.host, &args.reason).await?);
    }
    for warning in report.imported.iter().flat_map(|imported| &imported.application.warnings) {
        session.out.say(format!("warning: {warning}"));
    }
    for component in &report.components_elsewhere {
        session.out.say(format!("component {component} is not in components/ and was not pushed"));
    }
    session.out.show(&report, |_| render(&report, false))?;
    if let Some(imported) = &report.imported {
        session.out.say(format!("Check compatibility: margrave app compatibility {}", imported.application.id));
    }
    Ok(())
}

/// The target registry and the credentials for it.
async fn target(session: &Session, args: &PushArgs) -> Outcome<(Target, Connection)> {
    let own = session.api.registry().await;
    let Some(to) = &args.to else {
        if args.registry.is_given() {
            return Err(Failure::usage("registry options require --to; the embedded registry uses your token"));
        }
        let host = own?.address;
        return Ok((Target { host, embedded: true, requested: None }, own_connection(session).await?));
    };
    // The tag is optional: it is the version.
    let has_tag = to.rsplit('/').next().is_some_and(|last| last.contains(':'));
    let text = if has_tag { to.clone() } else { format!("{to}:x") };
    let reference = Reference::parse(&text).map_err(|problem| Failure::usage(format!("--to {to}: it {problem}")))?;
    let requested = Some((reference.repository.clone(), has_tag.then(|| reference.tag.to_string())));
    let embedded = own.is_ok_and(|own| own.address == reference.host);
    let connection = if embedded && !args.registry.is_given() {
        own_connection(session).await?
    } else {
        args.registry.connection()?
    };
    Ok((Target { host: reference.host, embedded, requested }, connection))
}

/// The embedded registry accepts the same token; the API returns its CA.
pub(crate) async fn own_connection(session: &Session) -> Outcome<Connection> {
    let trust = session.api.trust().await?;
    let credentials = Credentials::new(Some("margrave".to_owned()), Some(session.target.token.clone()))
        .map_err(|(field, message)| Failure::usage(format!("{field}: {message}")))?;
    let ca = Some(trust.https_ca).filter(|pem| !pem.trim().is_empty());
    Ok(Connection { plain_http: false, ca, credentials })
}

fn broken(args: &PushArgs, problems: Vec<String>) -> Failure {
    let count = if problems.len() == 1 { "a problem".to_owned() } else { format!("{} problems", problems.len()) };
    let what = format!("`{}` has {count}; nothing was pushed", args.folder.display());
    problems.into_iter().fold(Failure::failed(what), Failure::because)
}

/// A version identifies one content: without --force, existing different content is not replaced.
async fn reject_different_content(registry: &mut Registry, steps: &[Planned], force: bool) -> Outcome {
    let mut others = Vec::new();
    for step in steps {
        let there = registry.stat(&step.repository, &step.artifact.tag).await.map_err(failure)?;
        if there.is_some_and(|there| there != step.artifact.digest()) {
            others.push(format!("{} exists with different content", step.reference(registry.host())));
        }
    }
    if others.is_empty() || force {
        return Ok(());
    }
    let failure = others.into_iter().fold(Failure::failed("nothing was pushed"), Failure::because);
    Err(failure.next("use a new version, or replace the content with --force"))
}

/// Whether the catalog has this version from another manifest; then only the server can compare the content.
async fn in_catalog_with_other_manifest(session: &Session, package: &Package, step: Option<&Planned>) -> Outcome<bool> {
    let (id, version) = (package.description.id.as_str(), &package.description.metadata.version);
    match session.api.application_version(id, version).await {
        Ok(known) => Ok(step.is_some_and(|step| known.package_digest != step.artifact.digest().to_string())),
        Err(error) if error.code() == Some("not-found") => Ok(false),
        Err(error) => Err(error.into()),
    }
}

async fn import(
    session: &Session,
    package: &Package,
    steps: &[Planned],
    host: &str,
    reason: &CommentArgs,
) -> Outcome<Imported> {
    let mut entries = vec![("margo.yaml".to_owned(), package.description_bytes.as_slice())];
    entries.extend(package.resources.iter().map(|resource| (resource.path.clone(), resource.bytes.as_slice())));
    let source = steps.last().map(|step| step.reference(host).to_string());
    let archive = margo::archive::pack(&entries);
    Ok(session.api.upload_application(archive, source.as_deref(), reason.comment.as_deref()).await?)
}

async fn push(registry: &mut Registry, step: &Planned, progress: &mut Progress) -> Outcome<Line> {
    let mut line = Line::of(step, registry.host());
    progress.begin(&line.reference);
    for (digest, bytes) in &step.artifact.blobs {
        let pushed = registry.push_blob(&step.repository, digest, bytes, |sent| progress.show(sent)).await;
        match pushed.map_err(failure)? {
            Pushed::Sent => line.blobs_sent += 1,
            Pushed::Present => line.blobs_present += 1,
        }
        progress.blob_done(bytes.len() as u64);
    }
    let artifact = &step.artifact;
    let pushed = registry.push_manifest(&step.repository, &artifact.tag, MANIFEST_MEDIA_TYPE, &artifact.manifest).await;
    line.manifest_sent = pushed.map_err(failure)? == Pushed::Sent;
    Ok(line)
}

impl Line {
    fn of(step: &Planned, host: &str) -> Self {
        let Planned { artifact, stands_for, .. } = step;
        Self {
            kind: artifact.kind.as_str(),
            name: artifact.name.clone(),
            version: artifact.tag.clone(),
            reference: step.reference(host).to_string(),
            digest: artifact.digest().to_string(),
            stands_for: stands_for.clone(),
            bytes: artifact.bytes(),
            blobs_sent: 0,
            blobs_present: 0,
            manifest_sent: false,
        }
    }
}

fn render(report: &Report, dry_run: bool) -> String {
    let mut text = String::new();
    for line in &report.artifacts {
        let Line { kind, reference, digest, .. } = line;
        let word = match (dry_run, line.manifest_sent || line.blobs_sent > 0) {
            (true, _) => "Would push",
            (false, true) => "Pushed",
            (false, false) => "Present",
        };
        let _ = writeln!(text, "{word} {kind} {reference} ({digest})");
        if let Some(stands_for) = &line.stands_for {
            let _ = writeln!(text, "  mirrors {stands_for}");
        }
    }
    if let Some(imported) = &report.imported {
        let (id, version) = (&imported.application.id, &imported.application.version);
        let word = if imported.added { "Imported" } else { "Already in the catalog:" };
        let _ = writeln!(text, "{word} {id} {version}.");
    }
    text
}

fn failure(error: OciError) -> Failure {
    let exit = match error.kind {
        Kind::Setup | Kind::Ca => Exit::Usage,
        Kind::Unreachable | Kind::NameUnknown | Kind::Untrusted | Kind::NoRegistry | Kind::Busy => Exit::Unreachable,
        Kind::Denied => Exit::Unauthorized,
        Kind::NotFound => Exit::NotFound,
        Kind::Refused | Kind::TooLarge => Exit::Refused,
        Kind::Damaged => Exit::Failed,
    };
    Failure::new(exit, error.message)
}
