//! A minimal client of the cluster API: read, list, apply, delete, watch, logs. Every response is bounded.

mod discovery;

use super::access::{Access, Source};
use super::object::Resource;
use http::Method;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use secrecy::ExposeSecret as _;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};
use url::Url;

/// Field manager for server-side apply.
pub const FIELD_MANAGER: &str = "margrave";
/// Requests take milliseconds; a busy cluster on a small device takes longer.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
const CONNECT_MAX: Duration = Duration::from_secs(10);
/// Requested length of a watch, and the margin before the client ends it.
const WATCH_SECONDS: u64 = 290;
const WATCH_MARGIN: Duration = Duration::from_secs(30);
/// An object has at most 1.5 MB; lists come in pages.
const ANSWER_BYTES_MAX: usize = 16 << 20;
const PAGE_ITEMS: &str = "100";
/// Far above the number of our objects of one kind on one device.
const ITEMS_MAX: usize = 5_000;
/// Idle connections: one for work, one for observations.
const IDLE_CONNECTIONS_MAX: usize = 2;
const IDLE_MAX: Duration = Duration::from_secs(45);
/// Names and labels instead of whole objects.
const METADATA: &str = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json";
const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json";

#[derive(Debug, Clone, thiserror::Error)]
pub enum ApiError {
    #[error("the Kubernetes API does not answer: {0}")]
    Unreachable(String),
    #[error("the Kubernetes API says: {message}")]
    Refused {
        status: u16,
        message: String,
        /// Conflicting fields and their managers.
        fields: Vec<(String, String)>,
    },
    #[error("{0}")]
    Failed(String),
}

impl ApiError {
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Refused { status: 404, .. })
    }

    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Refused { status: 409, .. })
    }
}

/// Settings of one apply.
#[derive(Debug, Clone, Copy, Default)]
pub struct ApplyOptions {
    /// Take fields from other managers.
    pub force: bool,
    /// Dry run.
    pub dry_run: bool,
}

#[derive(Debug)]
struct Built {
    mark: Option<(SystemTime, u64)>,
    access: Access,
    http: reqwest::Client,
}

type Kinds = Arc<Vec<Resource>>;

#[derive(Debug)]
pub struct Client {
    source: Source,
    built: Mutex<Option<Arc<Built>>>,
    known: Mutex<HashMap<String, Kinds>>,
}

impl Client {
    pub fn new(source: Source) -> Self {
        Self { source, built: Mutex::new(None), known: Mutex::new(HashMap::new()) }
    }

    pub fn source(&self) -> &Source {
        &self.source
    }

    /// The current client: certificates in a kubeconfig may be replaced while the agent runs.
    fn built(&self) -> Result<Arc<Built>, ApiError> {
        let mut built = self.built.lock().unwrap_or_else(PoisonError::into_inner);
        let mark = self.source.mark();
        if let Some(known) = built.as_ref().filter(|known| known.mark == mark && mark.is_some()) {
            return Ok(Arc::clone(known));
        }
        let access = self.source.read().map_err(ApiError::Unreachable)?;
        let http = reqwest::Client::builder()
            .tls_backend_preconfigured(access.tls().map_err(ApiError::Unreachable)?)
            .http1_only()
            .https_only(true)
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .connect_timeout(CONNECT_MAX)
            .pool_idle_timeout(IDLE_MAX)
            .pool_max_idle_per_host(IDLE_CONNECTIONS_MAX)
            .user_agent(concat!("margrave-agent/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| ApiError::Unreachable(error.to_string()))?;
        let fresh = Arc::new(Built { mark, access, http });
        *built = Some(Arc::clone(&fresh));
        Ok(fresh)
    }

    fn request(
        &self,
        method: Method,
        path: &[String],
        query: &[(&str, &str)],
        wait: Duration,
    ) -> Result<reqwest::RequestBuilder, ApiError> {
        let built = self.built()?;
        let mut url = built.access.server.clone();
        place(&mut url, path)?;
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        let mut request = built.http.request(method, url).timeout(wait);
        if let Some(text) = built.access.authorization().map_err(ApiError::Unreachable)? {
            let mut value = HeaderValue::from_str(text.expose_secret())
                .map_err(|_| ApiError::Unreachable("its token contains invalid characters".to_owned()))?;
            value.set_sensitive(true);
            request = request.header(AUTHORIZATION, value);
        }
        Ok(request)
    }

    async fn send(request: reqwest::RequestBuilder) -> Result<reqwest::Response, ApiError> {
        let mut response = request.send().await.map_err(|error| no_response(&error))?;
        let status = response.status().as_u16();
        if response.status().is_success() {
            return Ok(response);
        }
        let body = read(&mut response).await.unwrap_or_default();
        Err(refused(status, &body))
    }

    async fn ask(&self, request: reqwest::RequestBuilder) -> Result<Vec<u8>, ApiError> {
        read(&mut Self::send(request).await?).await
    }

    async fn json(&self, request: reqwest::RequestBuilder) -> Result<Value, ApiError> {
        let body = self.ask(request).await?;
        serde_json::from_slice(&body).map_err(|error| ApiError::Failed(format!("the response of the API: {error}")))
    }

    pub async fn get(&self, path: &[String]) -> Result<Value, ApiError> {
        self.json(self.request(Method::GET, path, &[], REQUEST_TIMEOUT)?.header(ACCEPT, "application/json")).await
    }

    /// A missing object is no error.
    pub async fn find(&self, path: &[String]) -> Result<Option<Value>, ApiError> {
        match self.get(path).await {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.is_missing() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// All of a kind with these labels; `bare` without specification and status.
    pub async fn list(&self, path: &[String], selector: &str, bare: bool) -> Result<Vec<Value>, ApiError> {
        let mut items = Vec::new();
        let mut next = String::new();
        loop {
            let mut query = vec![("limit", PAGE_ITEMS), ("labelSelector", selector)];
            query.retain(|(_, value)| !value.is_empty());
            if !next.is_empty() {
                query.push(("continue", &next));
            }
            let accept = if bare { METADATA_LIST } else { "application/json" };
            let request = self.request(Method::GET, path, &query, REQUEST_TIMEOUT)?.header(ACCEPT, accept);
            let mut page = self.json(request).await?;
            if let Value::Array(found) = page["items"].take() {
                items.extend(found);
            }
            page["metadata"]["continue"].as_str().unwrap_or_default().clone_into(&mut next);
            if next.is_empty() {
                return Ok(items);
            }
            if items.len() > ITEMS_MAX {
                return Err(ApiError::Failed(format!("there are more than {ITEMS_MAX} objects of one kind")));
            }
        }
    }

    /// Server-side apply; returns the resulting object.
    pub async fn apply(&self, path: &[String], object: &Value, options: ApplyOptions) -> Result<Value, ApiError> {
        let ApplyOptions { force, dry_run } = options;
        let mut query = vec![("fieldManager", FIELD_MANAGER)];
        if force {
            query.push(("force", "true"));
        }
        if dry_run {
            query.push(("dryRun", "All"));
        }
        let request = self
            .request(Method::PATCH, path, &query, REQUEST_TIMEOUT)?
            .header(CONTENT_TYPE, "application/apply-patch+yaml")
            .header(ACCEPT, "application/json")
            // JSON is YAML.
            .body(object.to_string());
        self.json(request).await
    }

    /// Deletes exactly this object, by its uid; a missing one is no error.
    pub async fn delete(&self, path: &[String], uid: &str) -> Result<(), ApiError> {
        let options = json!({
            "apiVersion": "v1", "kind": "DeleteOptions",
            "propagationPolicy": "Background", "preconditions": { "uid": uid },
        });
        let request = self
            .request(Method::DELETE, path, &[], REQUEST_TIMEOUT)?
            .header(CONTENT_TYPE, "application/json")
            .body(options.to_string());
        match self.ask(request).await {
            Err(error) if error.is_missing() => Ok(()),
            other => other.map(|_| ()),
        }
    }

    /// Bytes as they are, for logs.
    pub async fn text(&self, path: &[String], query: &[(&str, &str)]) -> Result<String, ApiError> {
        let body = self.ask(self.request(Method::GET, path, query, REQUEST_TIMEOUT)?).await?;
        Ok(String::from_utf8_lossy(&body).into_owned())
    }

    /// Events of objects of a kind with these labels, from now on.
    pub async fn watch(&self, path: &[String], selector: &str) -> Result<Watch, ApiError> {
        let query = [("limit", "1"), ("labelSelector", selector)];
        let request = self.request(Method::GET, path, &query, REQUEST_TIMEOUT)?.header(ACCEPT, METADATA_LIST);
        let now = self.json(request).await?;
        let version = now["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
        let seconds = WATCH_SECONDS.to_string();
        let query = [
            ("watch", "true"),
            ("labelSelector", selector),
            ("resourceVersion", &version),
            ("timeoutSeconds", &seconds),
        ];
        let wait = Duration::from_secs(WATCH_SECONDS) + WATCH_MARGIN;
        let request = self.request(Method::GET, path, &query, wait)?.header(ACCEPT, METADATA);
        Ok(Watch { response: Self::send(request).await?, rest: Vec::new() })
    }
}

/// Appends to the path of the server URL.
fn place(url: &mut Url, path: &[String]) -> Result<(), ApiError> {
    let odd = ApiError::Failed("the address of the API cannot be used".to_owned());
    url.path_segments_mut().map_err(|()| odd)?.pop_if_empty().extend(path);
    Ok(())
}

async fn read(response: &mut reqwest::Response) -> Result<Vec<u8>, ApiError> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| no_response(&error))? {
        if body.len() + chunk.len() > ANSWER_BYTES_MAX {
            return Err(ApiError::Failed(format!("the response of the API is larger than {ANSWER_BYTES_MAX} bytes")));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

fn no_response(error: &reqwest::Error) -> ApiError {
    match crate::http::failed(error) {
        crate::machine::io::Answer::Failed { message, .. } => ApiError::Unreachable(message),
        crate::machine::io::Answer::Response(_) => ApiError::Unreachable(error.to_string()),
    }
}

/// The error of a `Status` object, or of a bare status.
fn refused(status: u16, body: &[u8]) -> ApiError {
    let status_object: Value = serde_json::from_slice(body).unwrap_or_default();
    let message = match status_object["message"].as_str() {
        Some(message) => message.to_owned(),
        None => format!("status {status}"),
    };
    if matches!(status, 429 | 502..=504) {
        return ApiError::Unreachable(message);
    }
    let causes = status_object["details"]["causes"].as_array().into_iter().flatten();
    let field = |cause: &Value| {
        let conflict = cause["message"].as_str().unwrap_or_default().to_owned();
        Some((cause["field"].as_str()?.to_owned(), conflict))
    };
    ApiError::Refused { status, message, fields: causes.filter_map(field).collect() }
}

/// Events, one per line.
#[derive(Debug)]
pub struct Watch {
    response: reqwest::Response,
    rest: Vec<u8>,
}

impl Watch {
    /// The next one; `None` at the end. May be dropped while waiting.
    pub async fn next(&mut self) -> Result<Option<Value>, ApiError> {
        loop {
            if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                if line.iter().all(u8::is_ascii_whitespace) {
                    continue;
                }
                return serde_json::from_slice(&line).map(Some).map_err(|error| ApiError::Failed(error.to_string()));
            }
            if self.rest.len() > ANSWER_BYTES_MAX {
                return Err(ApiError::Failed("an event is too large".to_owned()));
            }
            match self.response.chunk().await.map_err(|error| no_response(&error))? {
                None => return Ok(None),
                Some(chunk) => self.rest.extend_from_slice(&chunk),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_paths_and_appends_them_to_the_server_path() {
        let mut url = Url::parse("https://a.example/k8s/clusters/one").unwrap();
        let path = ["apis", "rbac.authorization.k8s.io", "v1", "clusterroles", "system:a/b"].map(str::to_owned);
        place(&mut url, &path).unwrap();
        let expected = "https://a.example/k8s/clusters/one/apis/rbac.authorization.k8s.io/v1/clusterroles/system:a%2Fb";
        assert_eq!(url.as_str(), expected);
    }

    #[test]
    fn returns_api_errors_and_treats_a_busy_api_as_unreachable() {
        let body = json!({
            "message": "Apply failed", "details": { "causes": [{ "field": ".spec.replicas", "message": "conflict with \"hand\"" }] },
        });
        let error = refused(409, body.to_string().as_bytes());
        assert!(error.is_conflict());
        let ApiError::Refused { fields, .. } = &error else { panic!("{error}") };
        assert_eq!(fields, &[(".spec.replicas".to_owned(), "conflict with \"hand\"".to_owned())]);
        assert!(matches!(refused(503, b"no"), ApiError::Unreachable(_)));
        assert!(refused(404, b"").is_missing());
    }
}
