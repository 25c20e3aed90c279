//! Devices and groups.

use super::{ApiClient, PageQuery, Result, Terms};
use crate::devices::{Device, Group, PutGroup, UpdateDevice};
use crate::explain::Explanation;
use crate::page::Page;
use reqwest::Method;
use url::Url;

/// Filter for devices; absent fields match everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeviceQuery {
    /// A label selector.
    pub selector: Option<String>,
    /// Part of a device's or client's id.
    pub text: Option<String>,
    /// Its state: `online`, `updating`, `failed`, `offline`, `blocked`.
    pub state: Option<String>,
    /// A column, with `-` in front to sort descending.
    pub sort: Option<String>,
}

impl ApiClient {
    /// `GET /api/devices`, by state and name.
    pub async fn find_devices(&self, query: &DeviceQuery, page: &PageQuery) -> Result<Page<Device>> {
        let DeviceQuery { selector, text, state, sort } = query.clone();
        let query = [
            ("selector", selector),
            ("text", text),
            ("state", state),
            ("sort", sort),
            ("limit", page.limit_text()),
            ("after", page.after.clone()),
        ];
        self.get(self.url(["devices"]), &query).await
    }

    /// `GET /api/devices`, by label selector and client if given.
    pub async fn devices(
        &self,
        selector: Option<&str>,
        client: Option<&str>,
        page: &PageQuery,
    ) -> Result<Page<Device>> {
        let query = [
            ("selector", selector.map(str::to_owned)),
            ("client", client.map(str::to_owned)),
            ("limit", page.limit_text()),
            ("after", page.after.clone()),
        ];
        self.get(self.url(["devices"]), &query).await
    }

    /// `GET /api/devices/{client}/{device}`
    pub async fn device(&self, client: &str, device: &str) -> Result<Device> {
        self.get(self.device_url(client, device), &[]).await
    }

    /// `GET /api/explain/devices/{client}/{device}`
    pub async fn explain_device(&self, client: &str, device: &str) -> Result<Explanation> {
        self.get(self.url(["explain", "devices", client].into_iter().chain(device.split('/'))), &[]).await
    }

    /// `PATCH /api/devices/{client}/{device}`
    pub async fn update_device(
        &self,
        client: &str,
        device: &str,
        body: &UpdateDevice,
        if_match: Option<i64>,
    ) -> Result<Device> {
        let terms = Terms { if_match, ..Terms::default() };
        self.send(Method::PATCH, self.device_url(client, device), terms, body).await
    }

    /// `DELETE /api/devices/{client}/{device}`: with its children.
    pub async fn delete_device(&self, client: &str, device: &str, reason: Option<&str>) -> Result<()> {
        self.delete(self.device_url(client, device), Terms { reason, ..Terms::default() }).await
    }

    /// Slashes of a device id are slashes of the path.
    fn device_url(&self, client: &str, device: &str) -> Url {
        self.url(["devices", client].into_iter().chain(device.split('/')))
    }

    /// `GET /api/groups`
    pub async fn groups(&self, page: &PageQuery) -> Result<Page<Group>> {
        self.get(self.url(["groups"]), &[("limit", page.limit_text()), ("after", page.after.clone())]).await
    }

    /// `GET /api/groups/{name}`
    pub async fn group(&self, name: &str) -> Result<Group> {
        self.get(self.url(["groups", name]), &[]).await
    }

    /// `PUT /api/groups/{name}`: creates without `if_match`, updates with it.
    pub async fn put_group(&self, name: &str, body: &PutGroup, if_match: Option<i64>) -> Result<Group> {
        self.send(Method::PUT, self.url(["groups", name]), Terms { if_match, ..Terms::default() }, body).await
    }

    /// `PUT /api/groups/{name}`: updates an existing group, whatever its revision.
    pub async fn change_group(&self, name: &str, body: &PutGroup) -> Result<Group> {
        let terms = Terms { if_present: true, ..Terms::default() };
        self.send(Method::PUT, self.url(["groups", name]), terms, body).await
    }

    /// `DELETE /api/groups/{name}`
    pub async fn delete_group(&self, name: &str, reason: Option<&str>, if_match: Option<i64>) -> Result<()> {
        self.delete(self.url(["groups", name]), Terms { if_match, reason, ..Terms::default() }).await
    }

    /// `GET /api/groups/{name}/devices`: its current devices.
    pub async fn group_devices(&self, name: &str, page: &PageQuery) -> Result<Page<Device>> {
        let query = [("limit", page.limit_text()), ("after", page.after.clone())];
        self.get(self.url(["groups", name, "devices"]), &query).await
    }
}
