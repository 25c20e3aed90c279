//! Verifies that the manager of this client signed the file, by the trust bundle of this device.

use crate::identity::Identity;
use crate::tls;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use margrave_core::preload::{Head, KIND, Statement, signed_bytes};
use rustls_pki_types::{CertificateDer, UnixTime};
use std::time::Duration;

/// A leaf and a few intermediates.
const CERTIFICATES_MAX: usize = 8;

/// The statement of a head, if the manager has signed it.
pub(super) fn statement(head: &Head, identity: &Identity) -> Result<Statement, String> {
    let text = head.statement.as_str();
    let statement: Statement =
        serde_json::from_str(text).map_err(|error| format!("its statement cannot be read: {error}"))?;
    if statement.kind != KIND {
        return Err(format!("it is of kind `{}`, this agent reads `{KIND}`", statement.kind));
    }
    let issued: jiff::Timestamp = statement.issued_at.parse().map_err(|_| "it has no creation time".to_owned())?;
    let seconds = u64::try_from(issued.as_second()).map_err(|_| "it was created before 1970".to_owned())?;
    let issued = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
    if head.certificates.len() > CERTIFICATES_MAX {
        return Err(format!("it contains more than {CERTIFICATES_MAX} certificates"));
    }
    let mut chain = Vec::new();
    for text in &head.certificates {
        let der = STANDARD.decode(text).map_err(|_| "one of its certificates cannot be read".to_owned())?;
        chain.push(CertificateDer::from(der));
    }
    let signature = STANDARD.decode(&head.signature).map_err(|_| "its signature cannot be read".to_owned())?;
    tls::verify_statement(identity, &chain, issued, head.scheme, &signed_bytes(text), &signature)?;
    Ok(statement)
}
