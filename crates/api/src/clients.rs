//! Clients, their identities, and the trust domain.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ClientState {
    Pending,
    Accepted,
    /// Was pending, and an operator rejected it.
    Rejected,
    /// Was accepted once.
    Decommissioned,
}

impl ClientState {
    pub const ALL: [Self; 4] = [Self::Pending, Self::Accepted, Self::Rejected, Self::Decommissioned];

    /// The wire value.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Accepted => "accepted",
            Self::Rejected => "rejected",
            Self::Decommissioned => "decommissioned",
        }
    }
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Client {
    pub id: String,
    pub spiffe_id: String,
    pub state: ClientState,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// RFC 3339, like all times here.
    pub created_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_seen_at: Option<String>,
    /// When it last connected without being accepted, if later; known since the start of the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_rejected_at: Option<String>,
    /// A manifest version that it reported although no server has issued it; the server rejects such reports. Until the
    /// server restarts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rejected_version: Option<u64>,
    pub manifest_version: u64,
    pub revision: i64,
}

/// `POST /api/clients`
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateClient {
    pub id: String,
    /// Default: accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<ClientState>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

/// `PATCH /api/clients/{id}`
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct UpdateClient {
    pub state: ClientState,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

/// `POST /api/clients/{id}/svid`: issue an X.509-SVID for a key that the caller holds.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct IssueSvid {
    /// PEM certificate signing request; names in it are ignored, the server sets them (LC-01).
    pub csr: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub valid_for_seconds: Option<u64>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct IssuedSvid {
    pub spiffe_id: String,
    /// PEM: leaf and intermediates.
    pub certificate: String,
    /// PEM: the trust anchors.
    pub trust_bundle: String,
    pub wfm_url: String,
    pub expires_at: String,
}

/// `POST /api/clients/{id}/enrollment-token`
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateEnrollmentToken {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub valid_for_seconds: Option<u64>,
    /// Also when a device has already used this client id: the enrolled device replaces it. Rejected as `in-use`
    /// otherwise.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub again: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct IssuedEnrollmentToken {
    /// Shown once.
    pub token: String,
    pub client: String,
    pub expires_at: String,
    pub trust_url: String,
    /// SHA-256 of the trust listener's public key, for `margrave-agent enroll --pin`.
    pub pin: String,
}

/// `GET /api/trust`
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Trust {
    pub trust_domain: String,
    pub wfm_id: String,
    pub wfm_spiffe_id: String,
    pub wfm_url: String,
    pub trust_url: String,
    pub pin: String,
    /// PEM: the trust anchors of the SVIDs.
    pub trust_bundle: String,
    /// PEM: the CA of the HTTPS certificates of the trust and operator listeners.
    pub https_ca: String,
}

/// A one-time token as shown to operators: never the token itself.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct EnrollmentToken {
    pub client: String,
    pub state: EnrollmentTokenState,
    pub created_at: String,
    pub expires_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub used_at: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum EnrollmentTokenState {
    Active,
    Used,
    Expired,
}

impl EnrollmentTokenState {
    /// The wire value.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Used => "used",
            Self::Expired => "expired",
        }
    }
}

/// `DELETE /api/clients/{id}/enrollment-token`
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RevokedTokens {
    pub client: String,
    /// Number of revoked tokens.
    pub tokens: u64,
}
