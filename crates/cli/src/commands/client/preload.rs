//! `margrave client preload`: writes a device's desired state, signed by the server, to a file for an offline first boot.

mod gather;

use super::super::app::RegistryArgs;
use super::super::{CommentArgs, Session};
use crate::failure::{Failure, Outcome};
use gather::{Blob, PreloadContent, Sources};
use margrave_api::preload::{CreatePreload, Preload};
use margrave_core::preload::{HEAD, Head, entry};
use margrave_oci::Platform;
use serde::Serialize;
use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::path::{Path, PathBuf};

/// Attempts before giving up on a desired state that keeps changing while its content is collected.
const GATHER_TRIES_MAX: u32 = 3;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  margrave client preload press-07 --out press-07.tar
  margrave client preload press-07 --out press-07.tar --with-images --platform linux/arm64

The file contains the manifest, the deployments and their components, and with --with-images the container images of
compose components. The device loads it at first boot if its settings name it ([boot] preload = \"…\"), and only if its
own server signed it for this device. It contains sensitive values, so its mode is 0600.
Components and images come from the embedded registry if present there, otherwise from their original registry.")]
pub(crate) struct PreloadArgs {
    /// Client id, the last part of its SPIFFE ID
    id: String,
    /// Output file
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Skip components; the device pulls them from their registries
    #[arg(long, conflicts_with = "with_images")]
    no_components: bool,
    /// Include the container images of compose components
    #[arg(long)]
    with_images: bool,
    /// Platform of the device, for multi-platform images
    #[arg(long, default_value = "linux/amd64")]
    platform: Platform,
    #[command(flatten)]
    registry: RegistryArgs,
    #[command(flatten)]
    reason: CommentArgs,
}

/// The result.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    file: PathBuf,
    client: String,
    manifest_version: u64,
    deployments: usize,
    components: Vec<String>,
    images: Vec<String>,
    bytes: u64,
}

pub(super) async fn run(session: &Session, args: PreloadArgs) -> Outcome {
    let sources = Sources::new(session, &args.registry).await?;
    let (made, gathered) = prepare(session, &args, &sources).await?;
    let part = args.out.with_extension("part");
    let written = write(&part, &made, &gathered, &sources).await;
    let bytes = written.inspect_err(|_| {
        let _ = std::fs::remove_file(&part);
    })?;
    std::fs::rename(&part, &args.out).map_err(|error| not_written(&args.out, &error))?;
    let report = Report {
        file: args.out.clone(),
        client: args.id,
        manifest_version: made.manifest_version,
        deployments: made.deployments.len(),
        components: gathered.artifacts.into_iter().map(|artifact| artifact.reference).collect(),
        images: gathered.images.into_iter().map(|image| image.name).collect(),
        bytes,
    };
    session.out.show(&report, |out| {
        out.fields(&[
            ("File", report.file.display().to_string()),
            ("Manifest version", report.manifest_version.to_string()),
            ("Deployments", report.deployments.to_string()),
            ("Components", report.components.join("\n")),
            ("Images", report.images.join("\n")),
            ("Bytes", report.bytes.to_string()),
        ])
    })?;
    session.out.say("Add it to the device's settings: [boot] preload = \"…\"");
    Ok(())
}

/// The signed statement and its content. Starts again if the desired state changes meanwhile.
async fn prepare(session: &Session, args: &PreloadArgs, sources: &Sources) -> Outcome<(Preload, PreloadContent)> {
    let reason = args.reason.comment.clone();
    let mut tries = 0;
    loop {
        let body = CreatePreload { comment: reason.clone(), ..CreatePreload::default() };
        let plain = session.api.create_preload(&args.id, &body).await?;
        if args.no_components {
            return Ok((plain, PreloadContent::default()));
        }
        let gathered = gather::all(&plain, sources, args.with_images.then_some(&args.platform)).await?;
        let (artifacts, images) = (gathered.artifacts.clone(), gathered.images.clone());
        // The content is valid only for this desired state.
        let body = CreatePreload { manifest: Some(plain.manifest_digest), artifacts, images, comment: reason.clone() };
        tries += 1;
        match session.api.create_preload(&args.id, &body).await {
            Err(error) if error.code() == Some("conflict") && tries < GATHER_TRIES_MAX => {}
            made => return Ok((made?, gathered)),
        }
    }
}

fn not_written(path: &Path, error: &std::io::Error) -> Failure {
    Failure::failed(format!("write `{}`", path.display())).caused_by(error)
}

/// Writes the file with mode 0600 and returns its size.
async fn write(path: &Path, made: &Preload, gathered: &PreloadContent, sources: &Sources) -> Outcome<u64> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let failed = |error: std::io::Error| not_written(path, &error);
    let file = File::options().write(true).create(true).truncate(true).mode(0o600).open(path).map_err(failed)?;
    let mut builder = tar::Builder::new(BufWriter::new(file));
    let head = Head {
        statement: made.statement.clone(),
        scheme: made.scheme,
        signature: made.signature.clone(),
        certificates: made.certificates.clone(),
    };
    let head = serde_json::to_vec(&head).map_err(|error| Failure::failed("write the header").caused_by(&error))?;
    add(&mut builder, HEAD, head.len() as u64, head.as_slice()).map_err(failed)?;
    let texts = made.deployments.iter().map(|deployment| &deployment.yaml).chain([&made.manifest]);
    let texts = texts.map(String::as_bytes).chain(gathered.layers.iter().map(Vec::as_slice));
    for bytes in texts {
        let name = entry(&margo::Digest::of(bytes));
        add(&mut builder, &name, bytes.len() as u64, bytes).map_err(failed)?;
    }
    for Blob { place, digest, size } in &gathered.blobs {
        let file = sources.blob(place, digest, *size).await?;
        add(&mut builder, &entry(digest), *size, file).map_err(failed)?;
    }
    let file = builder.into_inner().and_then(|out| out.into_inner().map_err(std::io::IntoInnerError::into_error));
    let file = file.map_err(failed)?;
    file.sync_all().map_err(failed)?;
    Ok(file.metadata().map_err(failed)?.len())
}

fn add(builder: &mut tar::Builder<impl Write>, name: &str, size: u64, content: impl Read) -> std::io::Result<()> {
    let mut header = tar::Header::new_gnu();
    header.set_size(size);
    header.set_mode(0o600);
    builder.append_data(&mut header, name, content)
}
