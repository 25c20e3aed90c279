//! Pages of the web UI with a large fleet: response times, and the cost of an open page.

mod addresses;

use super::fleet::{self, FLEET, Fleet};
use super::results::{Findings, Row};
use super::server::Server;
use super::{Setting, print_progress};
use addresses::ADDRESSES;
use anyhow::Context as _;
use futures_util::StreamExt as _;
use margrave_api::clients::CreateEnrollmentToken;
use margrave_api::devices::PutGroup;
use margrave_api::registries::PutRegistry;
use margrave_store::REGISTRIES_MAX;
use reqwest::Client;
use reqwest::header::{COOKIE, LOCATION, SET_COOKIE};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const SIZE: usize = 100_000;
const SIZE_QUICK: usize = 1_000;
const SIZE_CHECK: usize = 100;
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
const REQUESTS: usize = 20;
const REQUESTS_QUICK: usize = 3;
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
    let (size, requested) = if setting.quick { (SIZE_QUICK, REQUESTS_QUICK) } else { (SIZE, REQUESTS) };
    let folder = super::scratch()?;
    prepare(folder.path(), size).await?;
    let server = Server::start(folder.path(), setting.cores.server).await?;
    furnish(&server).await?;
    let visitor = BrowserSession::sign_in(&server).await?;
    let mut rows = Vec::new();
    for (name, path) in addresses(&server, &visitor).await? {
        let took = visitor.times(&path, requested).await.with_context(|| format!("request {path}"))?;
        let (median, slow) = (took[took.len() / 2], took[took.len().saturating_sub(2)]);
        print_progress(&format!("  {name}: median {:.0} ms, second slowest {:.0} ms", ms(median), ms(slow)));
        let measured = format!("{:.0} ms (median), {:.0} ms (second slowest)", ms(median), ms(slow));
        rows.push(Row::new(format!("{name}, {size} devices"), measured).target("under 200 ms", slow < PAGE_TARGET));
    }
    rows.extend(viewers(&server, &visitor).await?);
    Ok(Findings { rows, plots: Vec::new() })
}

async fn prepare(folder: &Path, size: usize) -> anyhow::Result<()> {
    let fleet = Fleet { prefix: "dev", size, hosts: FLEET, deployments: DEPLOYMENTS, sites: SITES };
    fleet::prepare(folder, &[fleet]).await?;
    let store = fleet::open(folder).await?;
    fleet::add_version(&store, "beta", NEWER).await?;
    store.close().await;
    Ok(())
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1_000.0
}

/// Creates, through the API, a group of all devices, the maximum number of external registries, and unused enrollment
/// tokens.
async fn furnish(server: &Server) -> anyhow::Result<()> {
    let api = server.api()?;
    let all_devices = PutGroup { selector: LABEL.to_owned(), description: None, comment: None };
    api.put_group("all-devices", &all_devices, None).await?;
    for number in 0..REGISTRIES_MAX {
        api.put_registry(&format!("registry-{number}.example"), &PutRegistry::default(), None).await?;
    }
    for number in 0..INVITED {
        api.create_enrollment_token(&format!("guest-{number}"), &CreateEnrollmentToken::default()).await?;
    }
    Ok(())
}

/// The addresses of [`ADDRESSES`] for this server.
async fn addresses(server: &Server, visitor: &BrowserSession) -> anyhow::Result<Vec<(&'static str, String)>> {
    let api = server.api()?;
    let query = margrave_api::client::DeploymentQuery::default();
    let one = margrave_api::client::PageQuery { limit: Some(1), ..margrave_api::client::PageQuery::default() };
    let deployment =
        api.deployments(&query, &one).await?.items.into_iter().next().context("the fleet has deployments")?;
    let replaced = [
        ("{label}", LABEL_ASKED.to_owned()),
        ("{deployment}", deployment.id),
        ("{rollout}", deployment.rollout),
        ("{draft}", visitor.draft("kind=create&application=alpha&version=1.0.0").await?),
        ("{everything}", visitor.draft_for_all_devices("alpha").await?),
        ("{newer}", visitor.draft(&format!("kind=upgrade&application=beta&version={NEWER}")).await?),
    ];
    let filled = |path: &str| replaced.iter().fold(path.to_owned(), |path, (name, value)| path.replace(name, value));
    Ok(ADDRESSES.iter().map(|(name, path)| (*name, filled(path))).collect())
}

/// Requests every address once from a server with a small fleet; returns how many there are.
pub async fn check(program: &Path) -> anyhow::Result<usize> {
    let folder = tempfile::tempdir()?;
    prepare(folder.path(), SIZE_CHECK).await?;
    let server = Server::start_program(program, folder.path(), None).await?;
    furnish(&server).await?;
    let visitor = BrowserSession::sign_in(&server).await?;
    let all = addresses(&server, &visitor).await?;
    for (_, path) in &all {
        visitor.get(path, false).await?;
    }
    Ok(all.len())
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
    async fn times(&self, path: &str, requested: usize) -> anyhow::Result<Vec<Duration>> {
        self.get(path, false).await?;
        let mut times = Vec::with_capacity(requested);
        for _ in 0..requested {
            let started = Instant::now();
            self.get(path, false).await?;
            times.push(started.elapsed());
        }
        times.sort_unstable();
        Ok(times)
    }

    /// The address of a new draft with this form.
    async fn draft(&self, form: &str) -> anyhow::Result<String> {
        let answer = self.post("/deploy", form.to_owned()).await?;
        let place = answer.headers().get(LOCATION).context("a draft has an address")?.to_str()?;
        // The first step depends on the kind.
        let (draft, _) = place.rsplit_once('/').context("a draft has steps")?;
        Ok(draft.to_owned())
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
    print_progress(&format!("  one open page: {looks:.2} refreshes and {each:.2} ms of processor time per second"));
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
    let started = Instant::now();
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
    tokio::time::sleep(OPEN.saturating_sub(started.elapsed())).await;
    let seconds = OPEN.as_secs_f64();
    let processor = (server.process.cpu_seconds()? - before) / seconds;
    Ok(Open { processor, looks: looked.into_inner() as f64 / seconds })
}

/// Labels devices, which creates events.
async fn label(server: &Server, a_second: usize) -> anyhow::Result<()> {
    let api = server.api()?;
    let started = Instant::now();
    for number in 0_usize.. {
        let labels = [("bench".to_owned(), Some(number.to_string()))].into_iter().collect();
        let body = margrave_api::devices::UpdateDevice { labels, comment: None };
        let device = format!("dev-{}", number % 500);
        api.update_device(&device, &device, &body, None).await?;
        let due = Duration::from_secs_f64(number as f64 / a_second as f64);
        tokio::time::sleep(due.saturating_sub(started.elapsed())).await;
    }
    Ok(())
}
