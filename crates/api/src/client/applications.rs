//! The catalog and compatibility.

use super::{ApiClient, PageQuery, Result, Terms};
use crate::applications::{
    Application, ApplicationDetail, ApplicationVersion, DeviceCompatibility, ImportApplication, Imported, Parameters,
};
use crate::diff::ApplicationDiff;
use crate::explain::Explanation;
use crate::page::Page;
use reqwest::Method;
use reqwest::header::CONTENT_TYPE;

impl ApiClient {
    /// `GET /api/applications`
    pub async fn applications(&self, page: &PageQuery) -> Result<Page<Application>> {
        self.get(self.url(["applications"]), &[("limit", page.limit_text()), ("after", page.after.clone())]).await
    }

    /// `POST /api/applications`: a tar.gz of a package folder or of an OCI layout. `source` names its origin, for
    /// people.
    pub async fn upload_application(
        &self,
        archive: Vec<u8>,
        source: Option<&str>,
        reason: Option<&str>,
    ) -> Result<Imported> {
        let mut request = self
            .request(Method::POST, self.url(["applications"]), Terms { reason, ..Terms::default() })
            .header(CONTENT_TYPE, "application/gzip");
        if let Some(source) = source {
            request = request.query(&[("source", source)]);
        }
        self.json(request.body(archive)).await
    }

    /// `POST /api/applications/import`: pull from an OCI registry.
    pub async fn import_application(&self, body: &ImportApplication) -> Result<Imported> {
        self.send(Method::POST, self.url(["applications", "import"]), Terms::default(), body).await
    }

    /// `GET /api/applications/{id}`
    pub async fn application(&self, id: &str) -> Result<ApplicationDetail> {
        self.get(self.url(["applications", id]), &[]).await
    }

    /// `GET /api/applications/{id}/versions/{version}`
    pub async fn application_version(&self, id: &str, version: &str) -> Result<ApplicationVersion> {
        self.get(self.url(["applications", id, "versions", version]), &[]).await
    }

    /// `POST /api/applications/{id}/versions/{version}/components/check`
    pub async fn check_application_components(&self, id: &str, version: &str) -> Result<ApplicationVersion> {
        let url = self.url(["applications", id, "versions", version, "components", "check"]);
        self.send(Method::POST, url, Terms::default(), &()).await
    }

    /// `GET /api/applications/{id}/diff`
    pub async fn application_diff(&self, id: &str, from: &str, to: &str) -> Result<ApplicationDiff> {
        let query = [("from", Some(from.to_owned())), ("to", Some(to.to_owned()))];
        self.get(self.url(["applications", id, "diff"]), &query).await
    }

    /// `GET /api/applications/{id}/explain`
    pub async fn explain_application(&self, id: &str) -> Result<Explanation> {
        self.get(self.url(["applications", id, "explain"]), &[]).await
    }

    /// `DELETE /api/applications/{id}/versions/{version}`
    pub async fn delete_application_version(&self, id: &str, version: &str, reason: Option<&str>) -> Result<()> {
        self.delete(self.url(["applications", id, "versions", version]), Terms { reason, ..Terms::default() }).await
    }

    /// `GET /api/applications/{id}/versions/{version}/compatibility`
    pub async fn application_compatibility(
        &self,
        id: &str,
        version: &str,
        selector: Option<&str>,
        page: &PageQuery,
    ) -> Result<Page<DeviceCompatibility>> {
        let query =
            [("selector", selector.map(str::to_owned)), ("limit", page.limit_text()), ("after", page.after.clone())];
        self.get(self.url(["applications", id, "versions", version, "compatibility"]), &query).await
    }

    /// `GET /api/applications/{id}/versions/{version}/parameters`
    pub async fn application_parameters(&self, id: &str, version: &str, profile: Option<&str>) -> Result<Parameters> {
        let query = [("profile", profile.map(str::to_owned))];
        self.get(self.url(["applications", id, "versions", version, "parameters"]), &query).await
    }

    /// `GET /api/applications/{id}/versions/{version}/resources/{kind}`: media type and bytes.
    pub async fn application_resource(&self, id: &str, version: &str, kind: &str) -> Result<(String, Vec<u8>)> {
        let url = self.url(["applications", id, "versions", version, "resources", kind]);
        let (_, media_type, bytes) = self.bytes(self.request(Method::GET, url, Terms::default())).await?;
        Ok((media_type, bytes))
    }
}
