//! One file, one struct: every setting of the server.
//!
//! Without a file the server starts on SQLite with safe defaults.

mod check;
mod example;
mod machine;
mod read;
mod settings;
mod span;

pub use check::Problem;
pub use read::{ConfigError, ConfigFile};
pub use settings::Setting;
pub use span::{Span, SpanError};

use settings::settings;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

const fn any(port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), port)
}

const fn loopback(port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port)
}

settings! {
    /// Every setting of the server.
    pub struct Config {
        /// Data folder of the server: database, keys, the initial API token and password.
        data_dir: PathBuf = PathBuf::from("margrave-data"),
        /// A client that was not seen for this long counts as offline.
        offline_after: Span = Span::minutes(5),
    }
    sections {
        store: StoreSettings,
        listeners: Listeners,
        urls: Urls,
        https: Https,
        identity: IdentitySettings,
        clients: Clients,
        capabilities: Capabilities,
        limits: Limits,
        retention: RetentionSettings,
        registry: RegistrySettings,
        catalog: CatalogSettings,
        log: Log,
    }
}

settings! {
    /// State storage.
    pub struct StoreSettings {
        /// `sqlite:///path/to/file.db` or `postgres://user@host/database`. Not set: `margrave.db` in the data folder.
        url: Option<String> = None,
        /// Connections for reading; SQLite always writes through exactly one.
        readers: u32 = 4,
        /// File with the key that seals sensitive values; created if it does not exist. Servers that share a database
        /// need the same key. Not set: `seal.key` in the data folder.
        seal_key_file: Option<PathBuf> = None,
    }
}

settings! {
    /// The three listeners; each can be switched off.
    pub struct Listeners {}
    sections {
        devices: DeviceListener,
        trust: TrustListener,
        operators: OperatorListener,
    }
}

settings! {
    /// Margo device API over mutual TLS: connections without a client certificate are refused.
    pub struct DeviceListener {
        /// Whether devices can connect.
        enabled: bool = true,
        /// Address and port; port 0 takes a free one.
        address: SocketAddr = any(443),
        /// Path before `/api/v1`, such as `/v1alpha2/margo`; empty for none.
        path_prefix: String = String::new(),
    }
}

settings! {
    /// Discovery, trust bundle and enrollment over ordinary HTTPS.
    pub struct TrustListener {
        /// Whether trust material is served and clients can enroll.
        enabled: bool = true,
        /// Address and port; port 0 takes a free one.
        address: SocketAddr = any(8443),
    }
}

settings! {
    /// Web front end, operator API, health and metrics.
    pub struct OperatorListener {
        /// Whether operators can connect.
        enabled: bool = true,
        /// Address and port; port 0 takes a free one.
        address: SocketAddr = loopback(8080),
        /// Whether to use HTTPS. Not set: HTTPS unless the address is a loopback address. Plain HTTP is refused on any
        /// other address.
        tls: Option<bool> = None,
    }
}

settings! {
    /// Addresses as seen from outside, sent to devices and shown to operators.
    pub struct Urls {
        /// Base URL of the device API. Not set: derived from the first HTTPS name (or the host name) and the port.
        devices: Option<String> = None,
        /// Base URL of the trust listener. Not set: derived in the same way.
        trust: Option<String> = None,
        /// Base URL of the operator listener. Not set: derived in the same way.
        operators: Option<String> = None,
    }
}

settings! {
    /// The server certificate of the trust and operator listeners.
    pub struct Https {
        /// DNS names and IP addresses in the certificate that the server creates; `localhost`, 127.0.0.1 and ::1 are
        /// always included.
        names: Vec<String> = Vec::new(),
        /// PEM file with a certificate chain to use instead of a created one; reloaded when it changes.
        certificate_file: Option<PathBuf> = None,
        /// PEM file with the private key of that certificate; reloaded when it changes.
        key_file: Option<PathBuf> = None,
        /// Lifetime of a certificate that the server creates; it is renewed after two thirds, with the same key.
        lifetime: Span = Span::days(90),
    }
}

settings! {
    /// The trust domain and this server's identity in it.
    pub struct IdentitySettings {
        /// SPIFFE trust domain of the server and its clients. Never change it for a running fleet.
        trust_domain: String = "margrave.internal".to_owned(),
        /// The `wfm-id` of this server in the trust domain. Never change it for a running fleet.
        wfm_id: String = "main".to_owned(),
        /// PEM file with the trust anchors, instead of the embedded authority alone; reloaded when it changes.
        anchors_file: Option<PathBuf> = None,
        /// PEM file with the private key, the certificate and any intermediates of the authority that issues SVIDs, instead of the embedded one; reloaded when it changes.
        issuer_file: Option<PathBuf> = None,
        /// PEM file with the private key and chain of the server's own SVID, instead of one from the issuer; reloaded when it changes.
        wfm_svid_file: Option<PathBuf> = None,
        /// Lifetime of the server's own SVID; it is renewed after two thirds.
        wfm_svid_lifetime: Span = Span::days(7),
        /// Lifetime of a client's SVID unless the client requests another one.
        client_svid_lifetime: Span = Span::days(30),
        /// Maximum lifetime of a client's SVID.
        client_svid_lifetime_max: Span = Span::days(730),
        /// How often clients should fetch the trust bundle (`spiffe_refresh_hint`).
        bundle_refresh: Span = Span::minutes(5),
    }
}

settings! {
    /// The accepted-client policy beyond the entries that operators create.
    pub struct Clients {
        /// Accept every client with a valid SVID of this server's namespace on first contact (WID-05). Decommissioned
        /// clients stay blocked.
        accept_any: bool = false,
    }
}

settings! {
    /// How capability reports are interpreted.
    pub struct Capabilities {
        /// A runtime or deployment type that the standard does not list: `refuse` the report or treat it as `custom`
        /// (CAP-07).
        unknown_types: UnknownTypes = UnknownTypes::Refuse,
    }
}

settings! {
    /// Limits for connections and requests.
    pub struct Limits {
        /// Open connections per listener; further ones wait to be accepted.
        connections: usize = 15_000,
        /// Time limit for a TLS handshake.
        handshake_timeout: Span = Span::seconds(10),
        /// Time limit for the head of a request, and for a kept-alive connection to stay idle.
        idle_timeout: Span = Span::seconds(150),
        /// Time limit for one request, from its head to the response.
        request_timeout: Span = Span::seconds(30),
        /// Longest wait of a long poll (`Prefer: wait=N`) for a new manifest; never more than two fifths of
        /// `offline_after`. `0s` switches long polls off.
        long_poll_max: Span = Span::minutes(2),
        /// Long polls open at the same time, one per client; further polls are answered at once.
        long_polls: usize = 12_000,
        /// A connection is closed after this time and never outlives the client's certificate (TLS-03).
        connection_age_max: Span = Span::hours(1),
        /// Time for requests in progress to finish when the server stops.
        drain_timeout: Span = Span::seconds(10),
        /// Event streams open at the same time, for all tokens together.
        event_streams: usize = 256,
        /// Event streams open at the same time per token.
        event_streams_per_token: usize = 32,
    }
}

settings! {
    /// How much history the server keeps.
    pub struct RetentionSettings {
        /// Revisions kept per deployment.
        revisions_per_deployment: u32 = 50,
        /// Status reports kept per deployment.
        statuses_per_deployment: u32 = 50,
        /// How long replaced YAMLs and bundles are kept for clients that are still fetching them.
        replaced_artifacts: Span = Span::days(1),
        /// How long finished rollouts are kept.
        finished_rollouts: Span = Span::days(90),
        /// How long removed deployments are kept.
        removed_deployments: Span = Span::days(90),
        /// A request repeated with its `Idempotency-Key` within this time gets the response of the first one.
        idempotency_keys: Span = Span::days(1),
        /// Number of newest events to keep, about 500 bytes each.
        events: u32 = 100_000,
        /// How often the store is pruned.
        prune_every: Span = Span::minutes(10),
    }
}

settings! {
    /// The embedded OCI registry, under `/v2` of the trust listener.
    pub struct RegistrySettings {
        /// Whether the registry is enabled.
        enabled: bool = true,
        /// Total bytes in the registry, including uploads in progress. Not set: limited by the disk only.
        bytes_max: Option<u64> = None,
        /// Bytes of one repository, including blobs it shares with others. Not set: no limit per repository.
        repository_bytes_max: Option<u64> = None,
        /// Bytes of one blob.
        blob_bytes_max: u64 = 64 << 30,
        /// Request bodies received at the same time; further pushes are asked to retry later.
        uploads_at_once: usize = 64,
        /// Uploads started and not yet completed.
        uploads_open_max: usize = 1_000,
        /// An upload without activity for this long is deleted.
        upload_expiry: Span = Span::days(1),
        /// How long a blob without a manifest is kept, for a push whose manifest has not arrived yet.
        unreferenced_blobs: Span = Span::days(1),
        /// Interval between garbage collections.
        gc_every: Span = Span::hours(1),
    }
}

settings! {
    /// The catalog of applications.
    pub struct CatalogSettings {
        /// Check whether the registries that a package names have its components, when it is added and when an operator
        /// requests a check.
        check_registries: bool = true,
    }
}

settings! {
    /// What the server writes to standard error.
    pub struct Log {
        /// `json` for machines, `text` for people.
        format: LogFormat = LogFormat::Json,
        /// Filter such as `info` or `info,margrave_server=debug`.
        filter: String = "info".to_owned(),
    }
}

/// What to do with a runtime or deployment type that the standard does not list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UnknownTypes {
    Refuse,
    Custom,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    Json,
    Text,
}

impl From<UnknownTypes> for margo::capabilities::UnknownTypes {
    fn from(setting: UnknownTypes) -> Self {
        match setting {
            UnknownTypes::Refuse => Self::Refuse,
            UnknownTypes::Custom => Self::Custom,
        }
    }
}

impl OperatorListener {
    /// Plain HTTP is allowed on loopback addresses only.
    pub fn speaks_tls(&self) -> bool {
        self.tls.unwrap_or(!self.address.ip().is_loopback())
    }
}

impl Config {
    /// Reads a file; settings that are not in it have their defaults.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        read::checked(ConfigFile::read(path)?)
    }

    /// Parses a text; `name` stands for the file in errors.
    pub fn parse(name: &Path, text: &str) -> Result<Self, ConfigError> {
        read::checked(ConfigFile::parse(name, text))
    }

    /// Problems of these settings beyond their form, on any machine.
    pub fn problems(&self) -> Vec<Problem> {
        check::problems(self)
    }

    /// What this machine lacks for these settings.
    pub fn machine_problems(&self) -> Vec<Problem> {
        machine::problems(self)
    }

    /// Every setting with its default and meaning.
    pub fn reference() -> Vec<Setting> {
        example::reference()
    }

    /// The reference as a page of the documentation, compared with the committed one by a test.
    pub fn reference_markdown() -> String {
        example::markdown()
    }

    /// One commented file with every setting and its default.
    pub fn example() -> String {
        example::file()
    }

    /// Every setting in effect by key, in the order of the reference; `None` for a setting that is not set. No secrets.
    pub fn in_effect(&self) -> Vec<(String, Option<toml::Value>)> {
        let mut shown = self.clone();
        shown.store.url = shown.store.url.map(|url| margrave_store::without_password(&url));
        let table = toml::Table::try_from(shown).expect("settings can be written as TOML");
        Self::reference()
            .into_iter()
            .map(|setting| {
                let value = example::value(&table, &setting.key).cloned();
                (setting.key, value)
            })
            .collect()
    }

    pub fn offline_after(&self) -> Duration {
        self.offline_after.0
    }

    pub fn store_url(&self) -> String {
        self.store.url.clone().unwrap_or_else(|| format!("sqlite://{}", self.data_dir.join("margrave.db").display()))
    }

    /// Path of the key that seals sensitive values.
    pub fn seal_key_file(&self) -> PathBuf {
        self.store.seal_key_file.clone().unwrap_or_else(|| self.data_dir.join("seal.key"))
    }

    /// Folder of the keys and certificates.
    pub fn trust_dir(&self) -> PathBuf {
        self.data_dir.join("trust")
    }
}

/// Host name of this machine.
pub fn host_name() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    if name.is_empty() { "localhost".to_owned() } else { name }
}

#[cfg(test)]
mod tests;
