//! One file, one struct: every setting of the server.
//!
//! With no file at all the server starts on SQLite with safe defaults.

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
        /// Folder for everything the server keeps: database, keys, the first API token and password.
        data_dir: PathBuf = PathBuf::from("margrave-data"),
        /// A client not heard of for this long counts as silent.
        silent_after: Span = Span::minutes(5),
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
    /// Where state is kept.
    pub struct StoreSettings {
        /// `sqlite:///path/to/file.db` or `postgres://user@host/database`. Not set: `margrave.db` in the data folder.
        url: Option<String> = None,
        /// Connections for reading; SQLite always writes through exactly one.
        readers: u32 = 4,
        /// File with the key that sensitive answers are sealed with; made when there is none yet. Servers that share a database need
        /// the same. Not set: `seal.key` in the data folder.
        seal_key_file: Option<PathBuf> = None,
    }
}

settings! {
    /// The three ways in; each can be off.
    pub struct Listeners {}
    sections {
        devices: DeviceListener,
        trust: TrustListener,
        operators: OperatorListener,
    }
}

settings! {
    /// Margo device API over mutual TLS: no certificate, no connection.
    pub struct DeviceListener {
        /// Whether devices can connect at all.
        enabled: bool = true,
        /// Address and port; port 0 takes a free one.
        address: SocketAddr = any(443),
        /// Path before `/api/v1`, such as `/v1alpha2/margo`; empty for none.
        path_prefix: String = String::new(),
    }
}

settings! {
    /// Discovery, trust bundle and enrolment over ordinary HTTPS.
    pub struct TrustListener {
        /// Whether trust material is served and clients can enrol.
        enabled: bool = true,
        /// Address and port; port 0 takes a free one.
        address: SocketAddr = any(8443),
    }
}

settings! {
    /// Web front end, operator API, health and metrics.
    pub struct OperatorListener {
        /// Whether operators can connect at all.
        enabled: bool = true,
        /// Address and port; port 0 takes a free one.
        address: SocketAddr = loopback(8080),
        /// Whether to speak HTTPS. Not set: exactly when the address is not a loopback address, where plain HTTP is refused.
        tls: Option<bool> = None,
    }
}

settings! {
    /// Addresses as seen from outside, given to devices and shown to operators.
    pub struct Urls {
        /// Base URL of the device API. Not set: made from the first HTTPS name (or the host name) and the port.
        devices: Option<String> = None,
        /// Base URL of the trust listener. Not set: made in the same way.
        trust: Option<String> = None,
        /// Base URL of the operator listener. Not set: made in the same way.
        operators: Option<String> = None,
    }
}

settings! {
    /// The ordinary server certificate of the trust and operator listeners.
    pub struct Https {
        /// DNS names and IP addresses in the certificate the server makes itself; `localhost`, 127.0.0.1 and ::1 are always in.
        names: Vec<String> = Vec::new(),
        /// PEM file with a certificate chain to use instead of making one; reloaded when it changes.
        certificate_file: Option<PathBuf> = None,
        /// PEM file with the private key of that certificate; reloaded when it changes.
        key_file: Option<PathBuf> = None,
        /// How long a certificate the server makes is valid; it is renewed after two thirds, with the same key.
        lifetime: Span = Span::days(90),
    }
}

settings! {
    /// The trust domain and who this server is in it.
    pub struct IdentitySettings {
        /// SPIFFE trust domain of the server and its clients. Never change it on a running fleet.
        trust_domain: String = "margrave.internal".to_owned(),
        /// The `wfm-id` of this server in the trust domain. Never change it on a running fleet.
        wfm_id: String = "main".to_owned(),
        /// PEM file with the trust anchors, instead of the embedded authority alone; reloaded when it changes.
        anchors_file: Option<PathBuf> = None,
        /// PEM file with the private key, the certificate and any intermediates of the authority that issues SVIDs, instead of the embedded one; reloaded when it changes.
        issuer_file: Option<PathBuf> = None,
        /// PEM file with the private key and chain of the server's own SVID, instead of one from the issuer; reloaded when it changes.
        wfm_svid_file: Option<PathBuf> = None,
        /// How long the server's own SVID is valid; it is renewed after two thirds.
        wfm_svid_lifetime: Span = Span::days(7),
        /// How long a client's SVID is valid unless asked otherwise.
        client_svid_lifetime: Span = Span::days(30),
        /// The longest SVID a client can be given.
        client_svid_lifetime_max: Span = Span::days(730),
        /// How often clients should fetch the trust bundle (`spiffe_refresh_hint`).
        bundle_refresh: Span = Span::minutes(5),
    }
}

settings! {
    /// The accepted-client policy beyond the entries operators make.
    pub struct Clients {
        /// Accept every client with a valid SVID of this server's namespace on first contact (WID-05). Clients an operator retired stay out.
        accept_any: bool = false,
    }
}

settings! {
    /// How capability reports are read.
    pub struct Capabilities {
        /// A runtime or deployment type the standard does not list: `refuse` the report or count it as `custom` (CAP-07).
        unknown_types: UnknownTypes = UnknownTypes::Refuse,
    }
}

settings! {
    /// Bounds on connections and requests.
    pub struct Limits {
        /// Connections open at the same time, per listener; further ones wait to be accepted.
        connections: usize = 15_000,
        /// Time for a TLS handshake.
        handshake_timeout: Span = Span::seconds(10),
        /// Time for the head of a request, and for a kept-alive connection to stay silent.
        idle_timeout: Span = Span::seconds(150),
        /// Time for one request, from its head to the answer.
        request_timeout: Span = Span::seconds(30),
        /// A poll with `Prefer: wait=N` is held until its manifest changes, at most this long and at most two fifths of
        /// `silent_after`; `0s` holds none.
        hold_max: Span = Span::minutes(2),
        /// Polls held at the same time, one per client; further ones are answered at once.
        holds: usize = 12_000,
        /// A connection is closed after this time and never outlives the client's certificate (TLS-03).
        connection_age_max: Span = Span::hours(1),
        /// Time for requests under way to finish when the server stops.
        drain_timeout: Span = Span::seconds(10),
        /// Event streams open at the same time, of all tokens together.
        event_streams: usize = 256,
        /// Event streams open at the same time with one token.
        event_streams_per_token: usize = 32,
    }
}

settings! {
    /// How much history is kept.
    pub struct RetentionSettings {
        /// Revisions kept per deployment.
        revisions_per_deployment: u32 = 50,
        /// Status reports kept per deployment.
        statuses_per_deployment: u32 = 50,
        /// Replaced YAMLs and bundles stay this long, for clients in the middle of fetching them.
        replaced_artifacts: Span = Span::days(1),
        /// Finished changes stay this long.
        finished_changes: Span = Span::days(90),
        /// Removed deployments stay this long.
        removed_deployments: Span = Span::days(90),
        /// A call repeated with its `Idempotency-Key` within this time answers what the first one answered.
        idempotency_keys: Span = Span::days(1),
        /// Events kept, the newest. About 500 bytes each.
        events: u32 = 100_000,
        /// How often the store is pruned.
        prune_every: Span = Span::minutes(10),
    }
}

settings! {
    /// The embedded OCI registry, under `/v2` of the trust listener.
    pub struct RegistrySettings {
        /// Whether there is one.
        enabled: bool = true,
        /// Bytes of everything in it, uploads under way included. Not set: as much as the disk holds.
        bytes_max: Option<u64> = None,
        /// Bytes of one repository, blobs it shares with others included. Not set: no limit of its own.
        repository_bytes_max: Option<u64> = None,
        /// Bytes of one blob.
        blob_bytes_max: u64 = 64 << 30,
        /// Bodies received at the same time; further pushes are told to come back.
        uploads_at_once: usize = 64,
        /// Uploads begun and not yet ended.
        uploads_open_max: usize = 1_000,
        /// An upload nobody touched for this long is dropped.
        upload_expiry: Span = Span::days(1),
        /// A blob that no manifest refers to stays this long, for a push that has not come to its manifest yet.
        unreferenced_blobs: Span = Span::days(1),
        /// How often garbage is collected.
        collect_every: Span = Span::hours(1),
    }
}

settings! {
    /// The catalog of applications.
    pub struct CatalogSettings {
        /// Ask the registries that a package names whether they have its components, when it is added and when an operator wants to know.
        ask_registries: bool = true,
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

/// What to do with a runtime or deployment type the standard does not list.
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
    /// Plain HTTP is for loopback addresses only.
    pub fn speaks_tls(&self) -> bool {
        self.tls.unwrap_or(!self.address.ip().is_loopback())
    }
}

impl Config {
    /// Reads a file; every setting that is not in it has its default.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        read::checked(ConfigFile::read(path)?)
    }

    /// Reads a text; `name` stands for the file in errors.
    pub fn parse(name: &Path, text: &str) -> Result<Self, ConfigError> {
        read::checked(ConfigFile::parse(name, text))
    }

    /// What is wrong with these settings beyond their form, on any machine.
    pub fn problems(&self) -> Vec<Problem> {
        check::problems(self)
    }

    /// What this machine lacks for these settings.
    pub fn machine_problems(&self) -> Vec<Problem> {
        machine::problems(self)
    }

    /// Every setting with its default and what it means.
    pub fn reference() -> Vec<Setting> {
        example::reference()
    }

    /// The reference as a page of the documentation, compared with the committed one by a test.
    pub fn reference_markdown() -> String {
        example::markdown()
    }

    /// One commented file with every setting, which says what would hold without it.
    pub fn example() -> String {
        example::file()
    }

    /// Every setting in effect by its key, in the order of the reference; nothing for what is not set. No secrets.
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

    pub fn silent_after(&self) -> Duration {
        self.silent_after.0
    }

    pub fn store_url(&self) -> String {
        self.store.url.clone().unwrap_or_else(|| format!("sqlite://{}", self.data_dir.join("margrave.db").display()))
    }

    /// Where the key for sensitive answers is.
    pub fn seal_key_file(&self) -> PathBuf {
        self.store.seal_key_file.clone().unwrap_or_else(|| self.data_dir.join("seal.key"))
    }

    /// Where the keys and certificates are.
    pub fn trust_dir(&self) -> PathBuf {
        self.data_dir.join("trust")
    }
}

/// The name this machine calls itself.
pub fn host_name() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    if name.is_empty() { "localhost".to_owned() } else { name }
}

#[cfg(test)]
mod tests;
