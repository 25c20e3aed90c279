//! `margrave app import`.

use super::super::{ReasonArgs, Session};
use crate::failure::{Failure, Outcome};
use margrave_api::applications::{ImportApplication, Imported};
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// Real packages are a few hundred kilobytes; this only keeps a wrong folder from being read into memory.
const PACKAGE_BYTES_MAX: u64 = 64 << 20;
/// The most files sent; a package has a handful.
const PACKAGE_FILES_MAX: usize = 1000;
/// Passwords are short; more than this is some other file.
const PASSWORD_BYTES_MAX: u64 = 64 << 10;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  margrave app import samples/line-monitor/1.0.0
  margrave app import ./layout                       # a folder with an `oci-layout` file
  margrave app import oci://registry.example/apps/line-monitor:1.0.0
  margrave app import oci://127.0.0.1:5000/apps/line-monitor:1.0.0 --plain-http
  pass show registry | margrave app import oci://… --username ci --password-stdin

A package that breaks a rule of the standard is refused, with all problems at once.
Folders are read here; registries are read by the server.")]
pub(crate) struct ImportArgs {
    /// Folder, OCI layout folder, or oci://registry/repository:tag
    source: String,
    /// User name for the registry
    #[arg(long, requires = "password_stdin")]
    username: Option<String>,
    /// Read the registry's password from stdin; it is used once and never stored
    #[arg(long, requires = "username")]
    password_stdin: bool,
    /// Speak HTTP to the registry; for loopback addresses only
    #[arg(long)]
    plain_http: bool,
    /// PEM file of a certificate authority to trust for the registry
    #[arg(long, value_name = "FILE")]
    registry_ca: Option<PathBuf>,
    #[command(flatten)]
    reason: ReasonArgs,
}

pub(crate) async fn run(session: &Session, args: ImportArgs) -> Outcome {
    let imported = if args.source.starts_with("oci://") {
        from_registry(session, args).await?
    } else {
        let ImportArgs { source, username, password_stdin, plain_http, registry_ca, reason } = args;
        if username.is_some() || password_stdin || plain_http || registry_ca.is_some() {
            return Err(Failure::usage(format!("`{source}` is a folder; registry options are for oci://… sources")));
        }
        let archive = pack(Path::new(&source))?;
        session.api.upload_application(archive, Some(&source), reason.reason.as_deref()).await?
    };
    report(session, &imported)
}

fn report(session: &Session, imported: &Imported) -> Outcome {
    let application = &imported.application;
    for warning in &application.warnings {
        session.out.say(format!("warning: {warning}"));
    }
    session.out.show(imported, |_| {
        let (id, version) = (&application.id, &application.version);
        if imported.added {
            format!("Imported {id} {version} ({}).\n", application.package_digest)
        } else {
            format!("{id} {version} was there already, exactly the same.\n")
        }
    })?;
    session.out.say(format!("See where it fits: margrave app fit {}", application.id));
    Ok(())
}

async fn from_registry(session: &Session, args: ImportArgs) -> Outcome<Imported> {
    let ImportArgs { source, username, password_stdin, plain_http, registry_ca, reason } = args;
    let password = password_stdin.then(read_password).transpose()?;
    let ca = registry_ca.map(|path| crate::connection::read_text(&path, "CA file")).transpose()?;
    let body = ImportApplication { source, username, password, plain_http, ca, reason: reason.reason };
    Ok(session.api.import_application(&body).await?)
}

fn read_password() -> Outcome<String> {
    let mut text = String::new();
    std::io::stdin()
        .take(PASSWORD_BYTES_MAX)
        .read_to_string(&mut text)
        .map_err(|error| Failure::usage("read the password from stdin").caused_by(&error))?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

/// A folder as tar.gz, names relative to it, in a stable order.
pub(crate) fn pack(folder: &Path) -> Outcome<Vec<u8>> {
    let shown = folder.display();
    if !folder.is_dir() {
        return Err(Failure::usage(format!("`{shown}` is not a folder"))
            .because("a package is a folder with margo.yaml and resources/, an OCI layout, or oci://…"));
    }
    let mut files = Vec::new();
    collect(folder, &mut files)?;
    files.sort();
    let bytes: u64 = files.iter().filter_map(|file| file.metadata().ok()).map(|metadata| metadata.len()).sum();
    if files.len() > PACKAGE_FILES_MAX || bytes > PACKAGE_BYTES_MAX {
        return Err(Failure::usage(format!("`{shown}` is too large to be a package"))
            .because(format!("{} files, {bytes} bytes", files.len()))
            .next("name the folder that holds margo.yaml itself"));
    }
    archive(folder, &files).map_err(|error| Failure::usage(format!("read the package `{shown}`")).caused_by(&error))
}

fn archive(folder: &Path, files: &[PathBuf]) -> std::io::Result<Vec<u8>> {
    let encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    let mut builder = tar::Builder::new(encoder);
    for file in files {
        let name = file.strip_prefix(folder).expect("every file was found below the folder");
        let bytes = std::fs::read(file)?;
        let mut header = tar::Header::new_ustar();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        builder.append_data(&mut header, name, bytes.as_slice())?;
    }
    builder.into_inner()?.finish()
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Outcome {
    let attempt =
        |error: std::io::Error| Failure::usage(format!("read the folder `{}`", folder.display())).caused_by(&error);
    for entry in std::fs::read_dir(folder).map_err(attempt)? {
        let entry = entry.map_err(attempt)?;
        let kind = entry.file_type().map_err(attempt)?;
        let path = entry.path();
        if kind.is_symlink() {
            return Err(Failure::usage(format!("`{}` is a link", path.display()))
                .because("a package holds files only, so that it is the same everywhere"));
        } else if kind.is_dir() {
            collect(&path, files)?;
        } else if kind.is_file() {
            files.push(path);
        }
        // A folder that is no package can be huge; stop early, `pack` says why.
        if files.len() > PACKAGE_FILES_MAX {
            return Ok(());
        }
    }
    Ok(())
}
