//! Server and agents killed with -9 repeatedly at random points; afterwards everything acknowledged is verified.

use margrave_api::devices::DeviceRef;
use margrave_sim::chaos::activity::{
    APPLICATIONS, RunContext, ThirdPartyDevice, WatchResult, operate, report_all_installed, watch,
};
use margrave_sim::chaos::agents::Agent;
use margrave_sim::chaos::device::DeviceClient;
use margrave_sim::chaos::site::Site;
use margrave_sim::chaos::{verdict, wait};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng as _};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::watch as signal;

/// Kills of the server and of agents in an ordinary run; `make soak` uses more.
const KILLS_DEFAULT: u32 = 30;

/// Devices of the fleet: single ones and one gateway with children.
const SINGLE_AGENTS: usize = 4;
const CHILDREN: usize = 2;

fn number(name: &str, default: u32) -> u32 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name}: `{text}`")))
}

/// The moment of a kill is the injected fault, so it comes from the seed.
async fn a_while(dice: &mut StdRng, max_ms: u64) {
    tokio::time::sleep(Duration::from_millis(dice.random_range(0..=max_ms))).await;
}

struct Fleet {
    agents: Vec<Agent>,
    devices: Vec<DeviceRef>,
}

async fn build(site: &Site) -> anyhow::Result<Fleet> {
    for application in APPLICATIONS {
        for (version, components) in [("1.0.0", 2), ("1.1.0", 3)] {
            site.import(application, version, components)?;
        }
    }
    let mut agents = Vec::new();
    for index in 0..=SINGLE_AGENTS {
        let (client, children) =
            if index == 0 { ("gateway".to_owned(), CHILDREN) } else { (format!("dev-{index}"), 0) };
        let identity = site.mint(&client)?;
        let mut agent = Agent::new(site.folder(), &client, &identity, children)?;
        agent.daemon.start()?;
        agents.push(agent);
    }
    let reference = |agent: &Agent, device: &String| DeviceRef { client: agent.client.clone(), device: device.clone() };
    let devices: Vec<_> =
        agents.iter().flat_map(|agent| agent.devices.iter().map(move |device| reference(agent, device))).collect();
    let api = site.api()?;
    for DeviceRef { client, device } in &devices {
        wait::until("the first report of a device", Duration::from_mins(1), async || {
            Ok(api.device(client, device).await.map(|_| ()).map_err(|error| error.to_string()))
        })
        .await?;
    }
    Ok(Fleet { agents, devices })
}

async fn kill_agents(mut agents: Vec<Agent>, kills: u32, mut dice: StdRng) -> anyhow::Result<Vec<Agent>> {
    for _ in 0..kills {
        a_while(&mut dice, 700).await;
        let index = dice.random_range(0..agents.len());
        agents[index].daemon.kill()?;
        a_while(&mut dice, 100).await;
        agents[index].daemon.start()?;
    }
    Ok(agents)
}

async fn kill_server(site: &mut Site, kills: u32, up: &signal::Sender<bool>, dice: &mut StdRng) -> anyhow::Result<()> {
    while site.server.kills < kills {
        a_while(dice, 800).await;
        site.server.kill()?;
        up.send_replace(false);
        // Some are killed before their first request.
        if dice.random_bool(0.15) && site.server.kills < kills {
            site.server.start()?;
            a_while(dice, 150).await;
            site.server.kill()?;
        }
        site.start().await?;
        up.send_replace(true);
    }
    Ok(())
}

fn check_watched(watched: &[WatchResult]) {
    let violations: Vec<_> = watched.iter().flat_map(|one| &one.violations).collect();
    assert!(violations.is_empty(), "invalid manifests: {violations:?}");
    let seen: usize = watched.iter().map(|one| one.versions.len()).sum();
    assert!(seen > watched.len() * 3, "the watchers saw only {seen} manifests: too little was tested");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_lost_by_kill_9() {
    let kills = number("MARGRAVE_KILLS", KILLS_DEFAULT);
    let seed = u64::from(number("MARGRAVE_SEED", 1));
    let folder = tempfile::tempdir().unwrap();
    let mut site = Site::new(folder.path(), &folder.path().join("data")).unwrap();
    site.start().await.unwrap();
    let Fleet { agents, mut devices } = build(&site).await.unwrap();
    let (up, up_seen) = signal::channel(true);
    let (stop, stop_seen) = signal::channel(false);
    let stage = RunContext { ledger: Arc::new(Mutex::default()), up: up_seen, stop: stop_seen };
    let stranger = || {
        let identity = folder.path().join("identities").join("stranger");
        ThirdPartyDevice { client: "stranger".to_owned(), device: DeviceClient::open(&identity).unwrap() }
    };
    site.mint("stranger").unwrap();
    stranger().report_itself(&stage).await.unwrap();
    devices.push(DeviceRef { client: "stranger".to_owned(), device: "stranger".to_owned() });

    let api = site.api().unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(operate(stage.clone(), api.clone(), devices, seed));
    tasks.spawn(stranger().live(stage.clone()));
    let mut watchers = tokio::task::JoinSet::new();
    for client in agents.iter().map(|agent| agent.client.clone()) {
        let device = DeviceClient::open(&folder.path().join("identities").join(&client)).unwrap();
        watchers.spawn(watch(stage.clone(), client, device));
    }
    let killing = tokio::spawn(kill_agents(agents, kills, StdRng::seed_from_u64(seed + 1)));
    kill_server(&mut site, kills, &up, &mut StdRng::seed_from_u64(seed + 2)).await.unwrap();
    let mut agents = killing.await.unwrap().unwrap();
    stop.send_replace(true);
    tasks.join_all().await;
    check_watched(&watchers.join_all().await);

    assert_eq!(site.server.kills, kills);
    assert_eq!(agents.iter().map(|agent| agent.daemon.kills).sum::<u32>(), kills);
    let ledger = Arc::into_inner(stage.ledger).expect("all tasks have ended").into_inner().unwrap();
    assert!(
        ledger.len() > kills as usize,
        "only {} acknowledged operations in {kills} kills: too little was tested",
        ledger.len()
    );
    verdict::promises(&site, &api, &ledger).await.unwrap();
    // Prove that the checker works: it must detect an operation that never happened.
    let mut wrong = ledger.clone();
    wrong.labels.push(("dev-1".to_owned(), "dev-1".to_owned(), "kill.example/never".to_owned(), "1".to_owned()));
    assert!(verdict::promises(&site, &api, &wrong).await.is_err(), "a lost operation was not detected");
    eprintln!(
        "{} acknowledged operations survived {kills} kills of the server and {kills} of agents: {} rollouts, {} labels, {} tokens, {} groups",
        ledger.len(),
        ledger.rollouts.len(),
        ledger.labels.len(),
        ledger.tokens.len(),
        ledger.groups.len(),
    );
    report_all_installed(&stranger(), &api).await.unwrap();
    verdict::converged(&api).await.unwrap();
    verdict::no_orphans(&api, &agents).await.unwrap();
    for agent in &mut agents {
        agent.daemon.must_run().unwrap();
    }
}
