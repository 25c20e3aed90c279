//! `margrave client mint`: writes an identity to a folder, for test tools and agents that cannot enroll.

use super::super::{CommentArgs, Session};
use crate::failure::{Failure, Outcome};
use margrave_api::clients::IssueSvid;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

const DAY_SECONDS: u64 = 86_400;

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:
  margrave client mint test-1 --out ./test-1
  curl -k --cert test-1/cert.pem --key test-1/key.pem \"$(cat test-1/wfm-url)/api/v1/deployments\"

Writes cert.pem (leaf and intermediates), key.pem (mode 0600), bundle.pem (trust anchors) and wfm-url.
The key is created locally and never leaves this machine. docs/guides/test-tools.md shows how to verify the server.")]
pub(crate) struct MintArgs {
    /// Client id, the last part of its SPIFFE ID
    id: String,
    /// Output folder; created if missing
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Validity of the certificate in days [default: set by the server]
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=3650))]
    days: Option<u64>,
    /// Replace the files of an existing identity
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    reason: CommentArgs,
}

/// The written files, for `-o json`.
#[derive(Debug, serde::Serialize)]
#[serde(rename_all = "camelCase")]
struct MintedIdentity {
    spiffe_id: String,
    expires_at: String,
    wfm_url: String,
    certificate: PathBuf,
    key: PathBuf,
    trust_bundle: PathBuf,
}

pub(crate) async fn run(session: &Session, args: MintArgs) -> Outcome {
    let MintArgs { id, out, days, force, reason } = args;
    let key_path = out.join("key.pem");
    if key_path.exists() && !force {
        return Err(Failure::usage(format!("`{}` already exists", key_path.display()))
            .next("use another folder with --out, or replace the files with --force"));
    }
    let key = rcgen::KeyPair::generate().map_err(|error| Failure::failed("create a key").caused_by(&error))?;
    // The server ignores names in the request and sets its own (LC-01).
    let csr = rcgen::CertificateParams::default()
        .serialize_request(&key)
        .and_then(|request| request.pem())
        .map_err(|error| Failure::failed("create a certificate request").caused_by(&error))?;
    super::accept(session, &id, None, reason.comment).await?;
    let body = IssueSvid { csr, valid_for_seconds: days.map(|days| days * DAY_SECONDS) };
    let issued = session.api.issue_svid(&id, &body).await?;

    std::fs::create_dir_all(&out)
        .map_err(|error| Failure::failed(format!("create the folder `{}`", out.display())).caused_by(&error))?;
    let minted = MintedIdentity {
        spiffe_id: issued.spiffe_id,
        expires_at: issued.expires_at,
        wfm_url: issued.wfm_url,
        certificate: out.join("cert.pem"),
        key: key_path,
        trust_bundle: out.join("bundle.pem"),
    };
    write(&minted.key, &key.serialize_pem(), 0o600)?;
    write(&minted.certificate, &issued.certificate, 0o644)?;
    write(&minted.trust_bundle, &issued.trust_bundle, 0o644)?;
    write(&out.join("wfm-url"), &format!("{}\n", minted.wfm_url), 0o644)?;
    session.out.show(&minted, |out| {
        out.fields(&[
            ("SPIFFE ID", minted.spiffe_id.clone()),
            ("Valid until", minted.expires_at.clone()),
            ("WFM", minted.wfm_url.clone()),
            ("Certificate", minted.certificate.display().to_string()),
            ("Key", minted.key.display().to_string()),
            ("Trust bundle", minted.trust_bundle.display().to_string()),
        ])
    })
}

/// Removes an existing file first, so that the mode is right from the first byte.
fn write(path: &Path, text: &str, mode: u32) -> Outcome {
    let attempt = |error: std::io::Error| Failure::failed(format!("write `{}`", path.display())).caused_by(&error);
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(attempt(error)),
        _ => {}
    }
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(path).map_err(attempt)?;
    file.write_all(text.as_bytes()).map_err(attempt)
}
