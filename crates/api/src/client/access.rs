//! Who am I, summary, tokens, operators, web sessions, audit.

use super::{ApiClient, PageQuery, Result, Terms};
use crate::access::{
    AuditRecord, AuditVerification, CreateToken, Operator, PasswordSet, Session, SetPassword, Token, WhoAmI,
};
use crate::page::Page;
use crate::summary::Summary;
use reqwest::Method;

/// Filter for audit records; absent fields match everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditQuery {
    /// The exact target, such as `client/press-07`.
    pub subject: Option<String>,
    /// Part of the target.
    pub about: Option<String>,
    /// The actor, such as `token:ci`.
    pub actor: Option<String>,
    /// An action such as `token.create`, or its prefix up to a dot.
    pub action: Option<String>,
    /// Not older than this time (RFC 3339).
    pub since: Option<String>,
    /// Older than this time (RFC 3339).
    pub until: Option<String>,
}

impl ApiClient {
    /// `GET /api/whoami`
    pub async fn whoami(&self) -> Result<WhoAmI> {
        self.get(self.url(["whoami"]), &[]).await
    }

    /// `GET /api/summary`
    pub async fn summary(&self) -> Result<Summary> {
        self.get(self.url(["summary"]), &[]).await
    }

    /// `GET /api/openapi.json`
    pub async fn openapi(&self) -> Result<serde_json::Value> {
        self.get(self.url(["openapi.json"]), &[]).await
    }

    /// `GET /api/tokens`
    pub async fn tokens(&self) -> Result<Page<Token>> {
        self.get(self.url(["tokens"]), &[]).await
    }

    /// `POST /api/tokens`; only this response contains the secret.
    pub async fn create_token(&self, body: &CreateToken) -> Result<Token> {
        self.send(Method::POST, self.url(["tokens"]), Terms::default(), body).await
    }

    /// `DELETE /api/tokens/{id}`
    pub async fn revoke_token(&self, id: &str, reason: Option<&str>) -> Result<()> {
        self.delete(self.url(["tokens", id]), Terms { reason, ..Terms::default() }).await
    }

    /// `GET /api/operators`
    pub async fn operators(&self) -> Result<Page<Operator>> {
        self.get(self.url(["operators"]), &[]).await
    }

    /// `PUT /api/operators/{name}/password`: ends the operator's web sessions.
    pub async fn set_password(&self, name: &str, body: &SetPassword) -> Result<PasswordSet> {
        self.send(Method::PUT, self.url(["operators", name, "password"]), Terms::default(), body).await
    }

    /// `GET /api/sessions`: most recently used first.
    pub async fn sessions(&self) -> Result<Page<Session>> {
        self.get(self.url(["sessions"]), &[]).await
    }

    /// `DELETE /api/sessions/{id}`
    pub async fn end_session(&self, id: &str, reason: Option<&str>) -> Result<()> {
        self.delete(self.url(["sessions", id]), Terms { reason, ..Terms::default() }).await
    }

    /// `GET /api/audit`: newest first, all records or those of one target such as `client/press-07`.
    pub async fn audit(&self, subject: Option<&str>, page: &PageQuery) -> Result<Page<AuditRecord>> {
        let subject = subject.map(str::to_owned);
        self.search_audit(&AuditQuery { subject, ..AuditQuery::default() }, page).await
    }

    /// `GET /api/audit`: newest first, filtered by the query.
    pub async fn search_audit(&self, query: &AuditQuery, page: &PageQuery) -> Result<Page<AuditRecord>> {
        let AuditQuery { subject, about, actor, action, since, until } = query.clone();
        let query = [
            ("subject", subject),
            ("about", about),
            ("actor", actor),
            ("action", action),
            ("since", since),
            ("until", until),
            ("limit", page.limit_text()),
            ("after", page.after.clone()),
        ];
        self.get(self.url(["audit"]), &query).await
    }

    /// `GET /api/audit/verify`
    pub async fn verify_audit(&self) -> Result<AuditVerification> {
        self.get(self.url(["audit", "verify"]), &[]).await
    }
}
