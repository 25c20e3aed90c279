//! Pages of the web UI with a large fleet: response times, and the cost of an open page.

use super::fleet::{self, FLEET, Fleet};
use super::results::{Findings, Row};
use super::server::Server;
use super::{Setting, tell};
use anyhow::Context as _;
use futures_util::StreamExt as _;
use margrave_api::clients::CreateEnrollmentToken;
use margrave_api::devices::PutGroup;
use margrave_api::registries::PutRegistry;
use margrave_store::REGISTRIES_MAX;
use reqwest::Client;
use reqwest::header::{COOKIE, LOCATION, SET_COOKIE};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const SIZE: usize = 100_000;
const SIZE_QUICK: usize = 1_000;
const DEPLOYMENTS: usize = 1;
/// Number of sites.
const SITES: usize = 20;
/// Active enrollment tokens; the page shows all of them.
const INVITED: usize = 100;
/// A label of every device.
const LABEL: &str = "sim.example/kind=compose";
/// The label in a query string.
const LABEL_ASKED: &str = "sim.example%2Fkind%3Dcompose";
/// A version of `beta` that no device has.
const NEWER: &str = "1.1.0";
/// Users perceive this as instantaneous.
const PAGE_TARGET: Duration = Duration::from_millis(200);
/// Requests per page; the second slowest counts.
const ASKED: usize = 20;
const ASKED_QUICK: usize = 3;
/// Pages open at the same time while events occur.
const VIEWERS: usize = 50;
/// Below the limit of one token (`limits.event_streams_per_token`).
const VIEWERS_PER_TOKEN: usize = 10;
/// How long they are open.
const OPEN: Duration = Duration::from_secs(10);
/// Events per second, from labeling devices.
const LABELS: usize = 200;
/// The notice that makes a list of devices refresh.
const TOLD: &[u8] = b"devices";

pub async fn run(setting: &Setting) -> anyhow::Result<Findings> {
    let (size, asked) = if setting.quick { (SIZE_QUICK, ASKED_QUICK) } else { (SIZE, ASKED) };
    let folder = super::scratch()?;
    let fleet = Fleet { prefix: "dev", size, hosts: FLEET, deployments: DEPLOYMENTS, sites: SITES };
    fleet::prepare(folder.path(), &[fleet]).await?;
    let store = fleet::open(folder.path()).await?;
    fleet::add_version(&store, "beta", NEWER).await?;
    store.close().await;
    let server = Server::start(folder.path(), setting.cores.server).await?;
    furnish(&server).await?;
    let visitor = BrowserSession::sign_in(&server).await?;
    let mut rows = Vec::new();
    for (name, path) in addresses(&server, &visitor).await? {
        let took = visitor.times(&path, asked).await.with_context(|| format!("request {path}"))?;
        let (median, slow) = (took[took.len() / 2], took[took.len().saturating_sub(2)]);
        tell(&format!("  {name}: median {:.0} ms, second slowest {:.0} ms", ms(median), ms(slow)));
        let measured = format!("{:.0} ms (median), {:.0} ms (second slowest)", ms(median), ms(slow));
        rows.push(Row::new(format!("{name}, {size} devices"), measured).target("under 200 ms", slow < PAGE_TARGET));
    }
    rows.extend(viewers(&server, &visitor).await?);
    Ok(Findings { rows, plots: Vec::new() })
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1_000.0
}

/// Creates, through the API, a group of all devices, the maximum number of external registries, and unused enrollment
/// tokens.
async fn furnish(server: &Server) -> anyhow::Result<()> {
    let api = server.api()?;
    let everybody = PutGroup { selector: LABEL.to_owned(), description: None, comment: None };
    api.put_group("everybody", &everybody, None).await?;
    for number in 0..REGISTRIES_MAX {
        api.put_registry(&format!("registry-{number}.example"), &PutRegistry::default(), None).await?;
    }
    for number in 0..INVITED {
        api.create_enrollment_token(&format!("guest-{number}"), &CreateEnrollmentToken::default()).await?;
    }
    Ok(())
}

/// Every page, each with the largest list it can show.
async fn addresses(server: &Server, visitor: &BrowserSession) -> anyhow::Result<Vec<(&'static str, String)>> {
    let api = server.api()?;
    let query = margrave_api::client::DeploymentQuery::default();
    let one = margrave_api::client::PageQuery { limit: Some(1), ..margrave_api::client::PageQuery::default() };
    let deployment =
        api.deployments(&query, &one).await?.items.into_iter().next().context("the fleet has deployments")?;
    let mut all = device_pages();
    all.extend([
        ("overview", "/".to_owned()),
        ("catalog", "/catalog".to_owned()),
        ("one application", "/catalog/beta".to_owned()),
        ("one application, compatibility", "/catalog/beta?where=yes".to_owned()),
        ("removing a version, confirmation", "/catalog/beta?version=1.0.0&ask=delete".to_owned()),
        ("deployments, all", "/deployments".to_owned()),
        ("failed deployments", "/deployments?state=failed".to_owned()),
        ("deployments of one application", "/deployments?application=beta".to_owned()),
        ("deployments by part of a device name", "/deployments?device=dev-77".to_owned()),
        ("deployments of one site", "/deployments?site=site-7".to_owned()),
        ("removals in progress", "/deployments?state=removing".to_owned()),
        ("one deployment", format!("/deployments/{}", deployment.id)),
        ("removing a deployment, confirmation", format!("/deployments/{}?ask=remove", deployment.id)),
        ("rollouts", "/rollouts".to_owned()),
        ("rollouts in progress", "/rollouts?state=in-progress".to_owned()),
        ("one rollout", format!("/rollouts/{}", deployment.rollout)),
        ("offline devices of a rollout", format!("/rollouts/{}?state=device-offline", deployment.rollout)),
        ("withdrawing a rollout, confirmation", format!("/rollouts/{}?ask=withdraw", deployment.rollout)),
    ]);
    all.extend(record_pages());
    all.extend(deploy_pages(visitor).await?);
    for (name, tab) in [
        ("tokens", "tokens"),
        ("password", "password"),
        ("sessions", "sessions"),
        ("device identities", "clients"),
        ("enrollment tokens", "enrollment-tokens"),
        ("registries", "registries"),
        ("adding a registry", "registries/add"),
        ("certificates", "trust"),
    ] {
        all.push((name, format!("/settings/{tab}")));
    }
    Ok(all)
}

fn device_pages() -> Vec<(&'static str, String)> {
    vec![
        ("devices, all", "/devices".to_owned()),
        ("devices by part of a name", "/devices?q=dev-77".to_owned()),
        ("devices by state, none", "/devices?state=failed".to_owned()),
        ("devices by state, most", "/devices?state=offline".to_owned()),
        ("updating devices, few", "/devices?state=updating".to_owned()),
        ("devices of one site", "/devices?site=site-7".to_owned()),
        ("devices of a group with all devices", "/devices?group=everybody".to_owned()),
        ("devices by a common label", format!("/devices?labels={LABEL_ASKED}")),
        ("one device", "/devices/dev-7/dev-7".to_owned()),
        ("deleting a device record, confirmation", "/devices/dev-7/dev-7?ask=delete".to_owned()),
        ("decommissioning a client, confirmation", "/clients/dev-7?ask=decommission".to_owned()),
        ("groups", "/groups".to_owned()),
        ("a group with all devices", "/groups/everybody".to_owned()),
        ("deleting a group, confirmation", "/groups/everybody?ask=delete".to_owned()),
    ]
}

/// The audit log has a record for every created client.
fn record_pages() -> Vec<(&'static str, String)> {
    vec![
        ("events", "/events".to_owned()),
        ("events of one kind, most", "/events?kind=deployment".to_owned()),
        ("events of one kind, none", "/events?kind=deployment.failed".to_owned()),
        ("events of one client", "/events?client=dev-7".to_owned()),
        ("events of one application", "/events?application=beta".to_owned()),
        ("events of the last hour", "/events?since=hour".to_owned()),
        ("audit log", "/audit".to_owned()),
        ("audit log by actor", "/audit?actor=bench".to_owned()),
        ("audit log by action, most", "/audit?action=client".to_owned()),
        ("audit log by action, few", "/audit?action=group".to_owned()),
        ("audit log of one device", "/audit?subject=dev-7".to_owned()),
        ("audit log of the last hour", "/audit?since=hour".to_owned()),
    ]
}

/// The steps of a deployment, to the whole fleet if possible.
async fn deploy_pages(visitor: &BrowserSession) -> anyhow::Result<Vec<(&'static str, String)>> {
    let draft = visitor.draft("kind=create&application=alpha&version=1.0.0").await?;
    let everything = visitor.draft_for_all_devices("alpha").await?;
    let newer = visitor.draft(&format!("kind=upgrade&application=beta&version={NEWER}")).await?;
    Ok(vec![
        ("selecting a version", format!("{draft}/version")),
        ("selecting devices", format!("{draft}/devices")),
        ("selecting devices by part of a name", format!("{draft}/devices?q=dev-77")),
        ("selecting devices of one site", format!("{draft}/devices?site=site-7")),
        ("selecting devices of a group with all devices", format!("{draft}/devices?group=everybody")),
        ("selecting devices by a common label", format!("{draft}/devices?labels={LABEL_ASKED}")),
        ("selecting devices by state, most", format!("{draft}/devices?state=offline")),
        ("configuration", format!("{draft}/configuration")),
        ("review for all devices", format!("{everything}/review")),
        ("selecting a version for all devices on another version", format!("{newer}/version")),
        ("selecting devices to upgrade, all devices", format!("{newer}/devices")),
        ("the same by part of a name", format!("{newer}/devices?q=dev-77")),
        ("review of an upgrade of all devices", format!("{newer}/review")),
    ])
}

/// A simulated browser.
#[derive(Clone)]
struct BrowserSession {
    http: Client,
    base: String,
    cookie: String,
}

impl BrowserSession {
    async fn sign_in(server: &Server) -> anyhow::Result<Self> {
        Self::sign_in_with(server, &server.token()?).await
    }

    async fn sign_in_with(server: &Server, token: &str) -> anyhow::Result<Self> {
        let http = Client::builder().redirect(reqwest::redirect::Policy::none()).build()?;
        let mut visitor = Self { http, base: server.url(""), cookie: String::new() };
        let answer = visitor.post("/sign-in", format!("token={token}")).await?;
        let cookie = answer.headers().get(SET_COOKIE).context("signing in sets a cookie")?.to_str()?;
        cookie.split(';').next().unwrap_or_default().clone_into(&mut visitor.cookie);
        Ok(visitor)
    }

    async fn post(&self, path: &str, body: String) -> anyhow::Result<reqwest::Response> {
        let request = self.http.post(format!("{}{path}", self.base)).header(COOKIE, &self.cookie);
        let request = request.header("sec-fetch-site", "same-origin");
        Ok(request.header("content-type", "application/x-www-form-urlencoded").body(body).send().await?)
    }

    async fn get(&self, path: &str, fragment: bool) -> anyhow::Result<usize> {
        let request = self.http.get(format!("{}{path}", self.base)).header(COOKIE, &self.cookie);
        let request = if fragment { request.header("x-fragment", "live") } else { request };
        let answer = request.send().await?;
        anyhow::ensure!(answer.status() == 200, "{path} returned {}", answer.status());
        Ok(answer.bytes().await?.len())
    }

    /// Sorted, shortest first. The first request is skipped, because it fills the caches.
    async fn times(&self, path: &str, asked: usize) -> anyhow::Result<Vec<Duration>> {
        self.get(path, false).await?;
        let mut times = Vec::with_capacity(asked);
        for _ in 0..asked {
            let begun = Instant::now();
            self.get(path, false).await?;
            times.push(begun.elapsed());
        }
        times.sort_unstable();
        Ok(times)
    }

    /// The address of a new draft with this form.
    async fn draft(&self, form: &str) -> anyhow::Result<String> {
        let answer = self.post("/deploy", form.to_owned()).await?;
        let place = answer.headers().get(LOCATION).context("a draft has an address")?.to_str()?;
        Ok(place.trim_end_matches("/version").to_owned())
    }

    /// The address of a draft for all devices.
    async fn draft_for_all_devices(&self, application: &str) -> anyhow::Result<String> {
        let draft = self.draft(&format!("kind=create&application={application}&version=1.0.0")).await?;
        let answer = self.post(&format!("{draft}/devices"), "go=all".to_owned()).await?;
        anyhow::ensure!(answer.status() == 303, "selecting all devices returned {}", answer.status());
        Ok(draft)
    }
}

/// The cost of open pages while events occur: each refreshes on every notice, like a browser.
async fn viewers(server: &Server, visitor: &BrowserSession) -> anyhow::Result<Vec<Row>> {
    let alone = open_pages(server, visitor, 0, LABELS).await?;
    let calm = open_pages(server, visitor, VIEWERS, LABELS / 10).await?;
    let busy = open_pages(server, visitor, VIEWERS, LABELS).await?;
    let looks = busy.looks / VIEWERS as f64;
    let each = (busy.processor - alone.processor).max(0.0) / VIEWERS as f64 * 1_000.0;
    let growth = busy.looks / calm.looks;
    tell(&format!("  one open page: {looks:.2} refreshes and {each:.2} ms of processor time per second"));
    let open = format!("{VIEWERS} open device lists, {LABELS} events per second");
    Ok(vec![
        Row::new(format!("refreshes per second of each of {open}"), format!("{looks:.2}"))
            .target("at most one per second", looks <= 1.1),
        Row::new("the same, relative to a tenth of the events", format!("{growth:.2}"))
            .target("per viewer, not per event: at most 1.2", growth <= 1.2),
        Row::new(format!("processor time per second for each of {open}"), format!("{each:.2} ms"))
            .target("under 10 ms", each < 10.0),
    ])
}

/// Work of the server per second.
struct Open {
    processor: f64,
    looks: f64,
}

async fn open_pages(server: &Server, visitor: &BrowserSession, count: usize, labels: usize) -> anyhow::Result<Open> {
    let mut pages = Vec::with_capacity(count);
    let mut viewer = None;
    for number in 0..count {
        if number % VIEWERS_PER_TOKEN == 0 {
            viewer = Some(
                BrowserSession::sign_in_with(server, &server.another_token(labels * VIEWERS + number).await?).await?,
            );
        }
        let viewer = viewer.as_ref().unwrap_or(visitor).clone();
        // A separate HTTP client without a timeout: the stream stays open.
        let request = viewer.http.get(format!("{}/ui/events", viewer.base)).header(COOKIE, &viewer.cookie);
        let notices = request.send().await?.error_for_status()?.bytes_stream();
        pages.push((viewer, notices));
    }
    let before = server.process.cpu_seconds()?;
    let begun = Instant::now();
    let looked = AtomicUsize::new(0);
    let work = tokio::time::timeout(OPEN, label(server, labels));
    let watching = tokio::time::timeout(
        OPEN,
        futures_util::future::try_join_all(pages.into_iter().map(async |(viewer, mut notices)| {
            while let Some(notice) = notices.next().await {
                if notice?.windows(TOLD.len()).any(|piece| piece == TOLD) {
                    viewer.get("/devices", true).await?;
                    looked.fetch_add(1, Ordering::Relaxed);
                }
            }
            anyhow::Ok(())
        })),
    );
    let (worked, watched) = tokio::join!(work, watching);
    if let Ok(Err(error)) = worked {
        return Err(error);
    }
    if let Ok(Err(error)) = watched {
        return Err(error);
    }
    tokio::time::sleep(OPEN.saturating_sub(begun.elapsed())).await;
    let seconds = OPEN.as_secs_f64();
    let processor = (server.process.cpu_seconds()? - before) / seconds;
    Ok(Open { processor, looks: looked.into_inner() as f64 / seconds })
}

/// Labels devices, which creates events.
async fn label(server: &Server, a_second: usize) -> anyhow::Result<()> {
    let api = server.api()?;
    let begun = Instant::now();
    for number in 0_usize.. {
        let labels = [("bench".to_owned(), Some(number.to_string()))].into_iter().collect();
        let body = margrave_api::devices::UpdateDevice { labels, comment: None };
        let device = format!("dev-{}", number % 500);
        api.update_device(&device, &device, &body, None).await?;
        let due = Duration::from_secs_f64(number as f64 / a_second as f64);
        tokio::time::sleep(due.saturating_sub(begun.elapsed())).await;
    }
    Ok(())
}
