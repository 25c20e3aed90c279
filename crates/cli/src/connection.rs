//! Selects the server of a command: flags, a data folder, the environment, or the saved login, in this order.

pub(crate) mod saved;

use crate::failure::{Exit, Failure, Outcome};
use margrave_api::client::{ApiClient, ClientOptions};
use saved::Saved;
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

#[derive(Debug, Clone, Default, clap::Args)]
pub(crate) struct ConnectionArgs {
    /// Data folder of the server to start (`serve`, `demo`) or of a local server to connect to
    #[arg(long, global = true, value_name = "DIR", help_heading = "Connection")]
    pub(crate) data: Option<PathBuf>,
    /// URL of the server, such as https://fleet.example:8080 [env: MARGRAVE_URL]
    #[arg(long, global = true, value_name = "URL", help_heading = "Connection")]
    pub(crate) url: Option<String>,
    /// File with the API token [env: MARGRAVE_TOKEN_FILE, or the token itself in MARGRAVE_TOKEN]
    #[arg(long, global = true, value_name = "FILE", help_heading = "Connection")]
    pub(crate) token_file: Option<PathBuf>,
    /// PEM file of a certificate authority to trust for the server [env: MARGRAVE_CA]
    #[arg(long, global = true, value_name = "FILE", help_heading = "Connection")]
    pub(crate) ca: Option<PathBuf>,
    /// Idempotency key: the same command with the same key runs only once
    #[arg(long, global = true, value_name = "KEY", help_heading = "Connection")]
    pub(crate) idempotency_key: Option<String>,
}

/// Environment variables; read once.
#[derive(Clone, Default)]
pub(crate) struct Environment {
    pub(crate) url: Option<String>,
    pub(crate) token: Option<String>,
    pub(crate) token_file: Option<PathBuf>,
    pub(crate) ca: Option<PathBuf>,
}

impl Environment {
    pub(crate) fn read() -> Self {
        let text = |name| std::env::var(name).ok().filter(|value: &String| !value.is_empty());
        Self {
            url: text("MARGRAVE_URL"),
            token: text("MARGRAVE_TOKEN"),
            token_file: text("MARGRAVE_TOKEN_FILE").map(PathBuf::from),
            ca: text("MARGRAVE_CA").map(PathBuf::from),
        }
    }
}

/// A server and the credentials for it.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) url: String,
    pub(crate) token: String,
    pub(crate) ca_pem: Option<String>,
}

/// Without the token, because debug output ends up in tickets.
impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Target").field("url", &self.url).field("ca_pem", &self.ca_pem).finish_non_exhaustive()
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Environment");
        shown
            .field("url", &self.url)
            .field("token_file", &self.token_file)
            .field("ca", &self.ca)
            .finish_non_exhaustive()
    }
}

impl Target {
    pub(crate) fn client(&self, idempotency_key: Option<&str>) -> Outcome<ApiClient> {
        let mut options = ClientOptions::new(&self.url).with_token(&self.token);
        options.idempotency_key = idempotency_key.map(str::to_owned);
        if let Some(ca) = &self.ca_pem {
            options = options.with_ca_pem(ca);
        }
        Ok(ApiClient::new(&options)?)
    }
}

/// Selects the server. A saved token is sent only to the server it was saved for.
pub(crate) fn resolve(args: &ConnectionArgs, environment: &Environment, saved: Option<Saved>) -> Outcome<Target> {
    if let Some(data) = &args.data {
        return from_data(args, data);
    }
    let token = given_token(args, environment)?;
    let ca_pem = args.ca.as_ref().or(environment.ca.as_ref()).map(|path| read_text(path, "CA file")).transpose()?;
    if let Some(url) = args.url.as_ref().or(environment.url.as_ref()) {
        let saved = saved.filter(|saved| same_server(&saved.url, url));
        let token = token.or_else(|| saved.as_ref().map(|saved| saved.token.clone())).ok_or_else(|| no_token(url))?;
        return Ok(Target { url: url.clone(), token, ca_pem: ca_pem.or_else(|| saved.and_then(|saved| saved.ca)) });
    }
    let saved = saved.ok_or_else(|| {
        Failure::usage("no server given")
            .because("neither --url, --data nor MARGRAVE_URL is set, and there is no saved login")
            .next("`margrave login --url URL --token-file FILE`, or `--data DIR` for a local server")
    })?;
    Ok(Target { url: saved.url, token: token.unwrap_or(saved.token), ca_pem: ca_pem.or(saved.ca) })
}

fn same_server(one: &str, other: &str) -> bool {
    one.trim_end_matches('/') == other.trim_end_matches('/')
}

fn no_token(url: &str) -> Failure {
    Failure::usage(format!("no token for {url}"))
        .because("neither --token-file, MARGRAVE_TOKEN nor MARGRAVE_TOKEN_FILE is set, and the saved login is missing or for another server")
        .next(format!("margrave login --url {url} --token-file FILE"))
}

pub(crate) fn given_token(args: &ConnectionArgs, environment: &Environment) -> Outcome<Option<String>> {
    match (&args.token_file, &environment.token) {
        (Some(file), _) => read_token(file).map(Some),
        (None, Some(token)) => Ok(Some(token.trim().to_owned())),
        (None, None) => environment.token_file.as_deref().map(read_token).transpose(),
    }
}

pub(crate) fn read_token(file: &Path) -> Outcome<String> {
    let token = read_text(file, "token file")?.trim().to_owned();
    if token.is_empty() {
        return Err(Failure::usage(format!("the token file `{}` is empty", file.display()))
            .next("`margrave token create NAME` creates a token"));
    }
    Ok(token)
}

pub(crate) fn read_text(path: &Path, what: &str) -> Outcome<String> {
    std::fs::read_to_string(path)
        .map_err(|error| Failure::new(Exit::Usage, format!("read {what} `{}`", path.display())).caused_by(&error))
}

/// The addresses file that a running server writes to its data folder.
#[derive(Debug, serde::Deserialize)]
struct Addresses {
    operators: Option<SocketAddr>,
    urls: Urls,
}

#[derive(Debug, serde::Deserialize)]
struct Urls {
    operators: String,
}

impl Addresses {
    /// A listener on all addresses is reachable over loopback, which its certificate covers.
    fn operators_url(self) -> Option<String> {
        let address = self.operators?;
        if !address.ip().is_unspecified() {
            return Some(self.urls.operators);
        }
        let scheme = self.urls.operators.split(':').next().unwrap_or("https");
        Some(format!("{scheme}://127.0.0.1:{}", address.port()))
    }
}

/// A local server writes its addresses, the initial token and its CA to its data folder.
fn from_data(args: &ConnectionArgs, data: &Path) -> Outcome<Target> {
    let missing = |failure: Failure| {
        if failure.next.is_some() {
            return failure;
        }
        failure.next(format!(
            "start the server: `margrave serve --data {0}` (or `margrave demo --data {0}`)",
            data.display()
        ))
    };
    let token = match &args.token_file {
        Some(file) => read_token(file)?,
        None => local_token(data).map_err(missing)?,
    };
    let url = match &args.url {
        Some(url) => url.clone(),
        None => {
            let path = data.join("addresses.json");
            let text = read_text(&path, "server addresses").map_err(missing)?;
            let addresses: Addresses = serde_json::from_str(&text).map_err(|error| {
                Failure::usage(format!("read server addresses `{}`", path.display())).caused_by(&error)
            })?;
            addresses
                .operators_url()
                .ok_or_else(|| Failure::usage(format!("the server of `{}` has no operator listener", data.display())))?
        }
    };
    let ca_pem = match &args.ca {
        Some(path) => Some(read_text(path, "CA file")?),
        None if url.starts_with("https:") => {
            std::fs::read_to_string(data.join("trust").join("https-ca.pem")).ok().map(|pem| certificates_of(&pem))
        }
        None => None,
    };
    Ok(Target { url, token, ca_pem })
}

/// The initial token. A server that shares the database of another one has none: only the first server creates it.
fn local_token(data: &Path) -> Outcome<String> {
    let path = data.join("admin-token");
    if path.exists() || !data.join("addresses.json").exists() {
        return read_token(&path);
    }
    Err(Failure::usage(format!("the data folder `{}` has no admin token", data.display()))
        .because("the token was deleted, or another server created it when it set up the database that both use")
        .next(format!(
            "add --token-file FILE with a valid token: `margrave --data {} --token-file FILE …`",
            data.display()
        )))
}

/// Only the certificates of a PEM file: the server stores the CA key in the same file.
fn certificates_of(pem: &str) -> String {
    let mut inside = false;
    let lines = pem.lines().filter(|line| {
        inside |= *line == "-----BEGIN CERTIFICATE-----";
        let keep = inside;
        inside &= *line != "-----END CERTIFICATE-----";
        keep
    });
    lines.flat_map(|line| [line, "\n"]).collect()
}

#[cfg(test)]
mod tests;
