//! `margrave app import`.

use super::super::{CommentArgs, Session};
use super::copy::{self, CopyArgs};
use super::registry_args::RegistryArgs;
use crate::failure::{Failure, Outcome};
use margrave_api::applications::{ImportApplication, Imported};
use margrave_api::registries::RegistryUse;
use std::path::{Path, PathBuf};

/// Real packages are a few hundred kilobytes; this limit keeps a wrong folder from being read into memory.
const PACKAGE_BYTES_MAX: u64 = 64 << 20;
/// The server's limit for an archive.
const ARCHIVE_BYTES_MAX: u64 = 32 << 20;
/// Most files in an upload; a package has a handful.
const PACKAGE_FILES_MAX: usize = 1000;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  margrave app import samples/line-monitor/1.0.0
  margrave app import line-monitor.tar.gz            # `tar -czf line-monitor.tar.gz -C FOLDER .`
  margrave app import ./layout                       # a folder with an `oci-layout` file
  margrave app import oci://registry.example/apps/line-monitor:1.0.0
  margrave app import oci://127.0.0.1:5000/apps/line-monitor:1.0.0 --plain-http
  pass show registry | margrave app import oci://… --username ci --password-stdin
  margrave registry add registry.example --username ci         # saved for later imports
  margrave app import oci://registry.example/apps/line-monitor:1.0.0 --with-images --platform linux/amd64

A package that violates the standard is rejected, with all problems at once.
This command reads folders; the server reads registries, with the saved credentials (`margrave registry external`).
With --with-images the server copies the package, its components and their container images into the embedded registry.
Devices that use it as a mirror pull them by their original names (`margrave client mirror-config`). Artifacts already
present are skipped, so running an interrupted copy again resumes it.")]
pub(crate) struct ImportArgs {
    /// Folder, archive of a folder, OCI layout folder, or oci://registry/repository:tag
    source: String,
    #[command(flatten)]
    registry: RegistryArgs,
    #[command(flatten)]
    copy: CopyArgs,
    #[command(flatten)]
    reason: CommentArgs,
}

pub(crate) async fn run(session: &Session, args: ImportArgs) -> Outcome {
    if args.copy.with_images {
        let ImportArgs { source, registry, copy, reason } = args;
        return copy::run(session, source, &registry, copy, reason).await;
    }
    let imported = if args.source.starts_with("oci://") {
        from_registry(session, args).await?
    } else {
        let ImportArgs { source, registry, copy: _, reason } = args;
        if registry.is_given() {
            return Err(Failure::usage(format!("`{source}` is local; registry options require an oci://… source")));
        }
        let path = Path::new(&source);
        let archive = if path.is_file() { read_archive(path)? } else { pack(path)? };
        session.api.upload_application(archive, Some(&source), reason.comment.as_deref()).await?
    };
    report(session, &imported)
}

fn report(session: &Session, imported: &Imported) -> Outcome {
    let application = &imported.application;
    for warning in &application.warnings {
        session.out.say(format!("warning: {warning}"));
    }
    if application.components_checked.as_ref().is_some_and(|check| check.missing + check.unknown > 0) {
        session.out.say(super::BRING);
    }
    if let Some(line) = super::skipped(application) {
        session.out.say(line);
    }
    session.out.show(imported, |_| {
        let (id, version) = (&application.id, &application.version);
        if imported.added {
            format!("Imported {id} {version} ({}).\n", application.package_digest)
        } else {
            format!("{id} {version} is already in the catalog with the same content.\n")
        }
    })?;
    if let Some(used) = imported.registry.as_ref().and_then(RegistryUse::sentence) {
        session.out.say(used);
    }
    session.out.say(format!("Check compatibility: margrave app compatibility {}", application.id));
    Ok(())
}

async fn from_registry(session: &Session, args: ImportArgs) -> Outcome<Imported> {
    let ImportArgs { source, registry, copy: _, reason } = args;
    let (password, ca) = (registry.password()?, registry.ca()?);
    let RegistryArgs { username, plain_http, .. } = registry;
    let body = ImportApplication { source, username, password, plain_http, ca, comment: reason.comment };
    Ok(session.api.import_application(&body).await?)
}

/// Reads an archive without checks: the server validates it.
fn read_archive(file: &Path) -> Outcome<Vec<u8>> {
    let shown = file.display();
    let attempt = |error: std::io::Error| Failure::usage(format!("read the archive `{shown}`")).caused_by(&error);
    if file.metadata().map_err(attempt)?.len() > ARCHIVE_BYTES_MAX {
        return Err(Failure::usage(format!("`{shown}` is too large to be a package"))
            .because(format!("a package archive has at most {} MiB", ARCHIVE_BYTES_MAX >> 20))
            .next("push container images to the registry with `margrave app push IMAGE.tar`"));
    }
    std::fs::read(file).map_err(attempt)
}

/// Packs a folder as tar.gz, with relative names in a stable order.
pub(crate) fn pack(folder: &Path) -> Outcome<Vec<u8>> {
    let shown = folder.display();
    if !folder.is_dir() {
        return Err(Failure::usage(format!("no folder or archive `{shown}`")).because(
            "a package is a folder with margo.yaml and resources/, an archive of such a folder, an OCI layout, or oci://…",
        ));
    }
    let mut files = Vec::new();
    collect(folder, &mut files)?;
    // Component sources are for `margrave app push`; the catalog needs the description and the files it names.
    let components = folder.join("components");
    files.retain(|file| !file.starts_with(&components));
    files.sort();
    let bytes: u64 = files.iter().filter_map(|file| file.metadata().ok()).map(|metadata| metadata.len()).sum();
    if files.len() > PACKAGE_FILES_MAX || bytes > PACKAGE_BYTES_MAX {
        return Err(Failure::usage(format!("`{shown}` is too large to be a package"))
            .because(format!("{} files, {bytes} bytes", files.len()))
            .next("specify the folder that contains margo.yaml"));
    }
    archive(folder, &files).map_err(|error| Failure::usage(format!("read the package `{shown}`")).caused_by(&error))
}

fn archive(folder: &Path, files: &[PathBuf]) -> std::io::Result<Vec<u8>> {
    let encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    let mut builder = tar::Builder::new(encoder);
    for file in files {
        let name = file.strip_prefix(folder).expect("every file is below the folder");
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
            return Err(Failure::usage(format!("`{}` is a symbolic link", path.display()))
                .because("a package contains only regular files, so that it is the same on every machine"));
        } else if kind.is_dir() {
            collect(&path, files)?;
        } else if kind.is_file() {
            files.push(path);
        }
        // A folder that is not a package can be huge; stop early, `pack` reports it.
        if files.len() > PACKAGE_FILES_MAX {
            return Ok(());
        }
    }
    Ok(())
}
