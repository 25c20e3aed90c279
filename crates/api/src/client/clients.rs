//! Clients, their identities, and the trust domain.

use super::{ApiClient, PageQuery, Result, Terms};
use crate::clients::{
    Client, ClientState, CreateClient, CreateEnrollmentToken, EnrollmentToken, IssueSvid, IssuedEnrollmentToken,
    IssuedSvid, RevokedTokens, Trust, UpdateClient,
};
use crate::page::Page;
use crate::preload::{CreatePreload, Preload};
use reqwest::Method;

impl ApiClient {
    /// `GET /api/clients`
    pub async fn clients(&self, page: &PageQuery) -> Result<Page<Client>> {
        self.get(self.url(["clients"]), &[("limit", page.limit_text()), ("after", page.after.clone())]).await
    }

    /// `GET /api/clients?state=...`
    pub async fn clients_in(&self, state: ClientState, page: &PageQuery) -> Result<Page<Client>> {
        let query =
            [("state", Some(state.as_str().to_owned())), ("limit", page.limit_text()), ("after", page.after.clone())];
        self.get(self.url(["clients"]), &query).await
    }

    /// `POST /api/clients`
    pub async fn create_client(&self, body: &CreateClient) -> Result<Client> {
        self.send(Method::POST, self.url(["clients"]), Terms::default(), body).await
    }

    /// `GET /api/clients/{id}`
    pub async fn client(&self, id: &str) -> Result<Client> {
        self.get(self.url(["clients", id]), &[]).await
    }

    /// `PATCH /api/clients/{id}`
    pub async fn update_client(&self, id: &str, body: &UpdateClient, if_match: Option<i64>) -> Result<Client> {
        self.send(Method::PATCH, self.url(["clients", id]), Terms { if_match, ..Terms::default() }, body).await
    }

    /// Accepts a client; the same as an update to `accepted`.
    pub async fn accept_client(&self, id: &str, reason: Option<&str>) -> Result<Client> {
        let body = UpdateClient { state: ClientState::Accepted, comment: reason.map(str::to_owned) };
        self.update_client(id, &body, None).await
    }

    /// Rejects a pending client; the same as an update to `rejected`.
    pub async fn reject_client(&self, id: &str, reason: Option<&str>) -> Result<Client> {
        let body = UpdateClient { state: ClientState::Rejected, comment: reason.map(str::to_owned) };
        self.update_client(id, &body, None).await
    }

    /// Decommissions a client; the same as an update to `decommissioned`.
    pub async fn decommission_client(&self, id: &str, reason: Option<&str>) -> Result<Client> {
        let body = UpdateClient { state: ClientState::Decommissioned, comment: reason.map(str::to_owned) };
        self.update_client(id, &body, None).await
    }

    /// `POST /api/clients/{id}/svid`
    pub async fn issue_svid(&self, id: &str, body: &IssueSvid) -> Result<IssuedSvid> {
        self.send(Method::POST, self.url(["clients", id, "svid"]), Terms::default(), body).await
    }

    /// `POST /api/clients/{id}/enrollment-token`
    pub async fn create_enrollment_token(
        &self,
        id: &str,
        body: &CreateEnrollmentToken,
    ) -> Result<IssuedEnrollmentToken> {
        self.send(Method::POST, self.url(["clients", id, "enrollment-token"]), Terms::default(), body).await
    }

    /// `GET /api/enrollment-tokens`: newest first, without the tokens themselves.
    pub async fn enrollment_tokens(&self) -> Result<Page<EnrollmentToken>> {
        self.get(self.url(["enrollment-tokens"]), &[]).await
    }

    /// `DELETE /api/clients/{id}/enrollment-token`: revokes the unused ones.
    pub async fn revoke_enrollment_tokens(&self, id: &str, reason: Option<&str>) -> Result<RevokedTokens> {
        let terms = Terms { reason, ..Terms::default() };
        self.json(self.request(Method::DELETE, self.url(["clients", id, "enrollment-token"]), terms)).await
    }

    /// `POST /api/clients/{id}/preload`
    pub async fn create_preload(&self, id: &str, body: &CreatePreload) -> Result<Preload> {
        self.send(Method::POST, self.url(["clients", id, "preload"]), Terms::default(), body).await
    }

    /// `GET /api/trust`
    pub async fn trust(&self) -> Result<Trust> {
        self.get(self.url(["trust"]), &[]).await
    }
}
