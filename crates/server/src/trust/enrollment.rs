//! `POST /enrollment/v1`: a one-time token and a CSR for an SVID (ONB-06, LC-01).

use super::rate_limit::RateLimit;
use crate::identity::{Identity, IdentityError};
use crate::manifest_cache::run_to_completion;
use crate::problems::{self, Answer, Refusal};
use crate::secrets;
use crate::state::ServerState;
use axum::extract::{Extension, Request, State};
use axum::response::IntoResponse as _;
use http::{StatusCode, header};
use margo::problem::{FieldError, ProblemType};
use margrave_store::EnrollmentUse;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// An answer can get lost: the same key may enroll again this long after the first use.
pub const ENROLLMENT_RETRY_WINDOW: Duration = Duration::from_mins(10);

/// A token of some 50 characters and a CSR.
const ENROLLMENT_BYTES_MAX: usize = 32 * 1024;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct EnrollmentRequest {
    pub token: String,
    /// PEM.
    pub csr: String,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EnrollmentResponse {
    pub spiffe_id: String,
    /// PEM: leaf and intermediates.
    pub certificate: String,
    /// SPIFFE JWK set.
    pub trust_bundle: Box<RawValue>,
    pub wfm_url: String,
}

pub(super) async fn post(
    State(state): State<ServerState>,
    Extension(rate_limit): Extension<Arc<RateLimit>>,
    request: Request,
) -> Answer {
    if !rate_limit.take(Instant::now()) {
        state.metrics.enrollment("busy");
        return Err(Refusal::new(
            ProblemType::Blank,
            StatusCode::TOO_MANY_REQUESTS,
            "Too many enrollments at once; retry later.",
        ));
    }
    let body = problems::body(request, ENROLLMENT_BYTES_MAX).await?;
    let enrolled = enroll(&state, &body).await;
    state.metrics.enrollment(match &enrolled {
        Ok(_) => "granted",
        Err(_) => "denied",
    });
    let response = enrolled?;
    let body = serde_json::to_vec(&response).map_err(|_| Refusal::internal())?;
    Ok(([(header::CONTENT_TYPE, "application/json"), (header::CACHE_CONTROL, "no-store")], body).into_response())
}

async fn enroll(state: &ServerState, body: &[u8]) -> Result<EnrollmentResponse, Refusal> {
    let EnrollmentRequest { token, csr } = read(body)?;
    // The CSR is checked first: an invalid one must not use up the token.
    let key_hash = Identity::csr_key_hash(&csr).map_err(|error| refused(&error))?;
    let own = state.clone();
    let used = run_to_completion(async move { use_token(&own, &secrets::hash(&token), &key_hash).await });
    let client = match used.await.map_err(|_| Refusal::internal())?? {
        EnrollmentUse::Granted(client) => client,
        EnrollmentUse::Unknown => return Err(Refusal::not_authorized("Unknown enrollment token.")),
        EnrollmentUse::Expired => {
            return Err(Refusal::not_authorized("The enrollment token has expired; ask an operator for a new one."));
        }
        EnrollmentUse::Used => {
            return Err(Refusal::not_authorized("The enrollment token has been used; ask an operator for a new one."));
        }
    };
    let issued = state.identity.issue(&client, &csr, None).map_err(|error| refused(&error))?;
    tracing::info!(client.id = %client, "enrolled client `{client}`");
    let bundle = String::from_utf8(state.identity.bundle_json()).map_err(|_| Refusal::internal())?;
    Ok(EnrollmentResponse {
        spiffe_id: issued.spiffe_id,
        certificate: issued.certificate_pem,
        trust_bundle: RawValue::from_string(bundle).map_err(|_| Refusal::internal())?,
        wfm_url: state.urls.devices.clone(),
    })
}

/// Uses the token, and loads its client into memory.
async fn use_token(state: &ServerState, secret_hash: &str, key_hash: &str) -> Result<EnrollmentUse, Refusal> {
    let used = state.store.enrollment_use(secret_hash, key_hash, ENROLLMENT_RETRY_WINDOW, state.now()).await;
    let used = used.map_err(|error| {
        state.metrics.store_error();
        Refusal::store(&error)
    })?;
    if let EnrollmentUse::Granted(client) = &used {
        super::refresh_head(state, client).await?;
    }
    Ok(used)
}

fn read(body: &[u8]) -> Result<EnrollmentRequest, Refusal> {
    serde_json::from_slice(body).map_err(|error| {
        // The text of a data error may quote values, and one of them is a secret: name the fields only.
        if error.is_data() {
            let field = |field: &str| FieldError { field: field.to_owned(), message: "must be a string".to_owned() };
            Refusal::semantic("The body must be an object with `token` and `csr`.", vec![field("token"), field("csr")])
        } else {
            Refusal::invalid("The body is not JSON.")
        }
    })
}

fn refused(error: &IdentityError) -> Refusal {
    match error {
        IdentityError::BadRequest(problem) => Refusal::one_field("csr", problem.clone()),
        other => {
            tracing::error!(error = other as &dyn std::error::Error, "cannot issue an SVID");
            Refusal::internal()
        }
    }
}
