//! Who am I, summary, tokens, audit.

use super::{ApiClient, PageQuery, Result, Terms};
use crate::access::{AuditRecord, AuditVerification, CreateToken, Token, WhoAmI};
use crate::page::Page;
use crate::summary::Summary;
use reqwest::Method;

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

    /// `POST /api/tokens`; the secret is in this answer only.
    pub async fn create_token(&self, body: &CreateToken) -> Result<Token> {
        self.send(Method::POST, self.url(["tokens"]), Terms::default(), body).await
    }

    /// `DELETE /api/tokens/{id}`
    pub async fn revoke_token(&self, id: &str, reason: Option<&str>) -> Result<()> {
        self.delete(self.url(["tokens", id]), Terms { reason, ..Terms::default() }).await
    }

    /// `GET /api/audit`: newest first, all records or those of one subject such as `client/press-07`.
    pub async fn audit(&self, subject: Option<&str>, page: &PageQuery) -> Result<Page<AuditRecord>> {
        let query =
            [("subject", subject.map(str::to_owned)), ("limit", page.limit_text()), ("after", page.after.clone())];
        self.get(self.url(["audit"]), &query).await
    }

    /// `GET /api/audit/verify`
    pub async fn verify_audit(&self) -> Result<AuditVerification> {
        self.get(self.url(["audit", "verify"]), &[]).await
    }
}
