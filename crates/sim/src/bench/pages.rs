//! Pages of the web front end over a large fleet: how long each takes, and what a page that is open costs.

use super::fleet::{self, FLEET, Fleet};
use super::results::{Findings, Row};
use super::server::Server;
use super::{Setting, tell};
use anyhow::Context as _;
use futures_util::StreamExt as _;
use margrave_api::clients::CreateEnrolmentToken;
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
/// Sites the devices are spread over.
const SITES: usize = 20;
/// Open invitations; the page shows all of them.
const INVITED: usize = 100;
/// A label every device has.
const LABEL: &str = "sim.example/kind=compose";
/// As a query says it.
const LABEL_ASKED: &str = "sim.example%2Fkind%3Dcompose";
/// A version of `beta` that no device has.
const NEWER: &str = "1.1.0";
/// What a person takes for "at once".
const PAGE_TARGET: Duration = Duration::from_millis(200);
/// Times each page is asked for; the slowest but one counts.
const ASKED: usize = 20;
const ASKED_QUICK: usize = 3;
/// Pages open at the same time while the fleet does something.
const VIEWERS: usize = 50;
/// Fewer than one token may have open (`limits.event_streams_per_token`).
const VIEWERS_PER_TOKEN: usize = 10;
/// How long they are open.
const OPEN: Duration = Duration::from_secs(10);
/// Events a second meanwhile: somebody labels devices.
const LABELS: usize = 200;
/// The notice by which a list of devices looks again.
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
    let visitor = Visitor::sign_in(&server).await?;
    let mut rows = Vec::new();
    for (name, path) in addresses(&server, &visitor).await? {
        let took = visitor.times(&path, asked).await.with_context(|| format!("ask for {path}"))?;
        let (median, slow) = (took[took.len() / 2], took[took.len().saturating_sub(2)]);
        tell(&format!("  {name}: {:.0} ms, at worst {:.0} ms", ms(median), ms(slow)));
        let measured = format!("{:.0} ms (median), {:.0} ms (slowest but one)", ms(median), ms(slow));
        rows.push(Row::new(format!("{name}, {size} devices"), measured).target("under 200 ms", slow < PAGE_TARGET));
    }
    rows.extend(viewers(&server, &visitor).await?);
    Ok(Findings { rows, plots: Vec::new() })
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1_000.0
}

/// What only somebody with a token makes: a group of every device, as many registries as are kept, and invitations nobody has
/// followed yet.
async fn furnish(server: &Server) -> anyhow::Result<()> {
    let api = server.api()?;
    let everybody = PutGroup { selector: LABEL.to_owned(), description: None, reason: None };
    api.put_group("everybody", &everybody, None).await?;
    for number in 0..REGISTRIES_MAX {
        api.put_registry(&format!("registry-{number}.example"), &PutRegistry::default(), None).await?;
    }
    for number in 0..INVITED {
        api.create_enrolment_token(&format!("guest-{number}"), &CreateEnrolmentToken::default()).await?;
    }
    Ok(())
}

/// Every page, each with the largest list it can show.
async fn addresses(server: &Server, visitor: &Visitor) -> anyhow::Result<Vec<(&'static str, String)>> {
    let api = server.api()?;
    let query = margrave_api::client::DeploymentQuery::default();
    let one = margrave_api::client::PageQuery { limit: Some(1), ..margrave_api::client::PageQuery::default() };
    let deployment =
        api.deployments(&query, &one).await?.items.into_iter().next().context("the fleet has deployments")?;
    let mut all = of_devices();
    all.extend([
        ("overview", "/".to_owned()),
        ("catalog", "/catalog".to_owned()),
        ("one application", "/catalog/beta".to_owned()),
        ("one application, where it could run", "/catalog/beta?where=yes".to_owned()),
        ("removing a version, asked before", "/catalog/beta?version=1.0.0&ask=delete".to_owned()),
        ("deployments, all", "/deployments".to_owned()),
        ("deployments that failed", "/deployments?state=failed".to_owned()),
        ("deployments of one application", "/deployments?application=beta".to_owned()),
        ("deployments by a piece of a device's name", "/deployments?device=dev-77".to_owned()),
        ("deployments of one site", "/deployments?site=site-7".to_owned()),
        ("removals under way", "/deployments?state=removing".to_owned()),
        ("one deployment", format!("/deployments/{}", deployment.id)),
        ("removing a deployment, asked before", format!("/deployments/{}?ask=remove", deployment.id)),
        ("changes", "/changes".to_owned()),
        ("changes under way", "/changes?state=under-way".to_owned()),
        ("one change", format!("/changes/{}", deployment.change)),
        ("its devices that do not call", format!("/changes/{}?state=not-heard-of", deployment.change)),
        ("calling a change off, asked before", format!("/changes/{}?ask=call-off", deployment.change)),
    ]);
    all.extend(of_records());
    all.extend(of_deploying(visitor).await?);
    for (name, tab) in [
        ("tokens", "tokens"),
        ("password", "password"),
        ("sessions", "sessions"),
        ("clients", "clients"),
        ("invitations", "invitations"),
        ("registries", "registries"),
        ("adding a registry", "registries/add"),
        ("trust", "trust"),
    ] {
        all.push((name, format!("/settings/{tab}")));
    }
    Ok(all)
}

fn of_devices() -> Vec<(&'static str, String)> {
    vec![
        ("devices, all", "/devices".to_owned()),
        ("devices by a piece of a name", "/devices?q=dev-77".to_owned()),
        ("devices by state, none", "/devices?state=failing".to_owned()),
        ("devices by state, most", "/devices?state=silent".to_owned()),
        ("devices at work, few", "/devices?state=working".to_owned()),
        ("devices of one site", "/devices?site=site-7".to_owned()),
        ("devices of a group of all", "/devices?group=everybody".to_owned()),
        ("devices by a label all have", format!("/devices?labels={LABEL_ASKED}")),
        ("one device", "/devices/dev-7/dev-7".to_owned()),
        ("forgetting a device, asked before", "/devices/dev-7/dev-7?ask=forget".to_owned()),
        ("retiring a client, asked before", "/clients/dev-7?ask=retire".to_owned()),
        ("groups", "/groups".to_owned()),
        ("a group of all", "/groups/everybody".to_owned()),
        ("deleting a group, asked before", "/groups/everybody?ask=delete".to_owned()),
    ]
}

/// The audit has a record of every client that was made.
fn of_records() -> Vec<(&'static str, String)> {
    vec![
        ("activity", "/activity".to_owned()),
        ("activity of one kind, most", "/activity?kind=deployment".to_owned()),
        ("activity of one kind, none", "/activity?kind=deployment.failed".to_owned()),
        ("activity of one client", "/activity?client=dev-7".to_owned()),
        ("activity of one application", "/activity?application=beta".to_owned()),
        ("activity of the last hour", "/activity?since=hour".to_owned()),
        ("audit", "/activity/audit".to_owned()),
        ("audit by who", "/activity/audit?actor=bench".to_owned()),
        ("audit by what, most", "/activity/audit?action=client".to_owned()),
        ("audit by what, few", "/activity/audit?action=group".to_owned()),
        ("audit about one device", "/activity/audit?subject=dev-7".to_owned()),
        ("audit of the last hour", "/activity/audit?since=hour".to_owned()),
    ]
}

/// The steps of deploying, to the whole fleet where that can be.
async fn of_deploying(visitor: &Visitor) -> anyhow::Result<Vec<(&'static str, String)>> {
    let draft = visitor.draft("kind=create&application=alpha&version=1.0.0").await?;
    let everything = visitor.for_all("alpha").await?;
    let newer = visitor.draft(&format!("kind=upgrade&application=beta&version={NEWER}")).await?;
    Ok(vec![
        ("choosing a version", format!("{draft}/version")),
        ("choosing devices", format!("{draft}/devices")),
        ("choosing devices by a piece of a name", format!("{draft}/devices?q=dev-77")),
        ("choosing devices of one site", format!("{draft}/devices?site=site-7")),
        ("choosing devices of a group of all", format!("{draft}/devices?group=everybody")),
        ("choosing devices by a label all have", format!("{draft}/devices?labels={LABEL_ASKED}")),
        ("choosing devices by state, most", format!("{draft}/devices?state=silent")),
        ("questions", format!("{draft}/answers")),
        ("review for all devices", format!("{everything}/review")),
        ("choosing a version for all that run another", format!("{newer}/version")),
        ("choosing who gets another version, of all", format!("{newer}/devices")),
        ("the same by a piece of a name", format!("{newer}/devices?q=dev-77")),
        ("review of another version for all devices", format!("{newer}/review")),
    ])
}

/// Somebody with a browser.
#[derive(Clone)]
struct Visitor {
    http: Client,
    base: String,
    cookie: String,
}

impl Visitor {
    async fn sign_in(server: &Server) -> anyhow::Result<Self> {
        Self::sign_in_with(server, &server.token()?).await
    }

    async fn sign_in_with(server: &Server, token: &str) -> anyhow::Result<Self> {
        let http = Client::builder().redirect(reqwest::redirect::Policy::none()).build()?;
        let mut visitor = Self { http, base: server.url(""), cookie: String::new() };
        let answer = visitor.post("/sign-in", format!("token={token}")).await?;
        let cookie = answer.headers().get(SET_COOKIE).context("signing in gives a cookie")?.to_str()?;
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
        anyhow::ensure!(answer.status() == 200, "{path} was answered with {}", answer.status());
        Ok(answer.bytes().await?.len())
    }

    /// In order, shortest first. The first time is left out: it reads what nobody has needed before.
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

    /// The address of a draft that begins with this form.
    async fn draft(&self, form: &str) -> anyhow::Result<String> {
        let answer = self.post("/deploy", form.to_owned()).await?;
        let place = answer.headers().get(LOCATION).context("a draft has an address")?.to_str()?;
        Ok(place.trim_end_matches("/version").to_owned())
    }

    /// The address of a draft for every device there is.
    async fn for_all(&self, application: &str) -> anyhow::Result<String> {
        let draft = self.draft(&format!("kind=create&application={application}&version=1.0.0")).await?;
        let answer = self.post(&format!("{draft}/devices"), "go=all".to_owned()).await?;
        anyhow::ensure!(answer.status() == 303, "choosing all devices was answered with {}", answer.status());
        Ok(draft)
    }
}

/// What pages that are open cost while the fleet does something: each looks again whenever it is told to, as a browser does.
async fn viewers(server: &Server, visitor: &Visitor) -> anyhow::Result<Vec<Row>> {
    let alone = open_pages(server, visitor, 0, LABELS).await?;
    let calm = open_pages(server, visitor, VIEWERS, LABELS / 10).await?;
    let busy = open_pages(server, visitor, VIEWERS, LABELS).await?;
    let looks = busy.looks / VIEWERS as f64;
    let each = (busy.processor - alone.processor).max(0.0) / VIEWERS as f64 * 1_000.0;
    let growth = busy.looks / calm.looks;
    tell(&format!("  one page that is open: {looks:.2} looks and {each:.2} ms of processor time a second"));
    let open = format!("{VIEWERS} lists of devices that are open, {LABELS} events a second");
    Ok(vec![
        Row::new(format!("looks a second of each of {open}"), format!("{looks:.2}"))
            .target("at most one a second", looks <= 1.1),
        Row::new("the same, of with a tenth of the events", format!("{growth:.2}"))
            .target("per viewer, not per event: at most 1.2", growth <= 1.2),
        Row::new(format!("processor time a second for each of {open}"), format!("{each:.2} ms"))
            .target("under 10 ms", each < 10.0),
    ])
}

/// What the server did in a second.
struct Open {
    processor: f64,
    looks: f64,
}

async fn open_pages(server: &Server, visitor: &Visitor, count: usize, labels: usize) -> anyhow::Result<Open> {
    let mut pages = Vec::with_capacity(count);
    let mut viewer = None;
    for number in 0..count {
        if number % VIEWERS_PER_TOKEN == 0 {
            viewer =
                Some(Visitor::sign_in_with(server, &server.another_token(labels * VIEWERS + number).await?).await?);
        }
        let viewer = viewer.as_ref().unwrap_or(visitor).clone();
        // A client of its own has no time to be done in: the stream stays open.
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

/// Labels devices, which makes events.
async fn label(server: &Server, a_second: usize) -> anyhow::Result<()> {
    let api = server.api()?;
    let begun = Instant::now();
    for number in 0_usize.. {
        let labels = [("bench".to_owned(), Some(number.to_string()))].into_iter().collect();
        let body = margrave_api::devices::UpdateDevice { labels, reason: None };
        let device = format!("dev-{}", number % 500);
        api.update_device(&device, &device, &body, None).await?;
        let due = Duration::from_secs_f64(number as f64 / a_second as f64);
        tokio::time::sleep(due.saturating_sub(begun.elapsed())).await;
    }
    Ok(())
}
