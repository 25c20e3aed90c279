//! `margrave sim` against a real server: virtual devices converge, fail, go offline and reconnect; the result shows it.

use crate::support::{CommandOutput, Server, margrave, until};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A running simulator; stopped with the test.
struct Sim {
    child: Child,
    folder: PathBuf,
}

impl Sim {
    fn start(mut command: Command, folder: &Path) -> Self {
        let file = |name: &str| Stdio::from(File::create(folder.join(name)).unwrap());
        let child = command.stdout(file("sim.out")).stderr(file("sim.err")).spawn().unwrap();
        Self { child, folder: folder.to_owned() }
    }

    fn talk(&self) -> String {
        std::fs::read_to_string(self.folder.join("sim.err")).unwrap()
    }

    /// Sends Ctrl-C; returns the exit code and the result.
    fn interrupt(mut self) -> (i32, Value) {
        kill_process(Pid::from_child(&self.child), Signal::INT).unwrap();
        let code =
            until("exit of the simulator", || self.child.try_wait().unwrap()).code().expect("not killed by a signal");
        let out = std::fs::read_to_string(self.folder.join("sim.out")).unwrap();
        let result = serde_json::from_str(&out).unwrap_or_else(|error| panic!("{error}: {out}\n{}", self.talk()));
        (code, result)
    }
}

impl Drop for Sim {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn count(server: &Server, arguments: &[&str]) -> usize {
    server.json(arguments).as_array().unwrap().len()
}

fn simulate(server: &Server, arguments: &[&str]) -> Sim {
    let mut command = server.command(&["sim", "-o", "json"]);
    command.args(arguments);
    Sim::start(command, server.folder.path())
}

fn devices_are_here(server: &Server, sim: &Sim, devices: usize) {
    until("report of every device", || {
        let here = server.json(&["status"])["devices"].as_u64().unwrap_or_else(|| panic!("{}", sim.talk()));
        (here == devices as u64).then_some(())
    });
}

fn deploy(server: &Server) {
    let seen = server.run(&[
        "deploy",
        "line-monitor@1.0.0",
        "--selector",
        "simulation=sim",
        "--set",
        "lineName=simulated",
        "--yes",
    ]);
    assert_eq!(seen.code, 0, "{}", seen.stderr);
}

#[test]
fn hundreds_of_devices_converge_on_a_deployment_and_are_cleaned_up() {
    let server = Server::with_samples();
    let sim = simulate(&server, &["--devices", "200", "--poll", "2s", "--clean"]);
    devices_are_here(&server, &sim, 200);
    deploy(&server);
    until("convergence", || (count(&server, &["deployment", "list", "--state", "up-to-date"]) == 200).then_some(()));
    until("a line about it", || sim.talk().contains("deployments: 200 installed").then_some(()));
    let (code, result) = sim.interrupt();
    assert_eq!(code, 0, "{result}");
    for (key, expected) in
        [("devices", 200), ("enrolled", 200), ("reporting", 200), ("upToDate", 200), ("failed", 0), ("unsettled", 0)]
    {
        assert_eq!(result[key], expected, "{key}: {result}");
    }
    assert_eq!(result["deployments"]["installed"], 200, "{result}");
    assert_eq!(result["problems"], Value::Array(Vec::new()), "{result}");
    assert!(result["polls"]["unchanged"].as_u64().unwrap() > 0 && result["polls"]["changed"].as_u64().unwrap() >= 200);
    assert!(result["connections"]["peak"].as_u64().unwrap() >= 1 && result["seconds"].as_f64().unwrap() > 0.0);
    let latency = &result["pollLatencyMs"];
    assert!(latency["p50"].as_f64().unwrap() <= latency["p99"].as_f64().unwrap(), "{result}");
    assert!(count(&server, &["client", "list", "--limit", "1000"]) >= 200);
    let clients = server.json(&["client", "list", "--limit", "1000"]);
    assert!(clients.as_array().unwrap().iter().all(|client| client["state"] == "decommissioned"), "cleaned up");
    assert_eq!(server.json(&["status"])["devices"], 0);
}

#[test]
fn reports_failures_ends_offline_periods_and_survives_restarts() {
    let server = Server::with_samples();
    let profile = server.folder.path().join("profile.toml");
    std::fs::write(
        &profile,
        "[offline]\nshare = 0.5\nfirst_within = \"3s\"\nlength = \"1s\"\nlength_max = \"3s\"\nevery = \"2s\"\n\
         restart = true\n[[failures]]\nshare = 0.3\ntimes = \"always\"\nmessage = \"the board does not answer\"\n\
         [[failures]]\nshare = 0.3\ntimes = 1\n[[kinds]]\nname = \"box\"\narchitecture = \"amd64\"\ncores = 4\n\
         memory = \"8Gi\"\nstorage = \"64Gi\"\ndeployment_types = [\"compose\", \"helm\"]\n",
    )
    .unwrap();
    let sim =
        simulate(&server, &["--devices", "60", "--poll", "1s", "--seed", "7", "--profile", profile.to_str().unwrap()]);
    devices_are_here(&server, &sim, 60);
    deploy(&server);
    // A device that always fails keeps retrying; one that fails once converges.
    let failed = until("a result for every device", || {
        let deployments = server.json(&["deployment", "list"]);
        let deployments = deployments.as_array().unwrap();
        let others: Vec<_> = deployments.iter().filter(|one| one["state"] != "up-to-date").collect();
        let reported = others.iter().all(|one| one["state"] == "failed" && one.to_string().contains("the board does"));
        (deployments.len() == 60 && reported).then_some(others.len())
    });
    assert!((5..40).contains(&failed), "{failed} of 60 failed, three in ten are configured to");
    until("an offline spell seen", || {
        let talk = sim.talk();
        talk.lines().any(|line| line.contains(" offline") && !line.contains(" 0 offline")).then_some(())
    });
    let (code, result) = sim.interrupt();
    assert_eq!(result["failedAsConfigured"], failed, "{result}");
    assert_eq!(result["upToDate"].as_u64().unwrap() + result["failed"].as_u64().unwrap(), 60, "{result}");
    assert_eq!((code, &result["problems"]), (0, &Value::Array(Vec::new())), "{result}");
    assert_eq!(result["polls"]["failed"], 0, "a device without network sends no requests: {result}");
}

#[test]
fn respects_the_connection_limit() {
    let server = Server::start();
    let sim = simulate(
        &server,
        &["--devices", "60", "--poll", "1s", "--connections", "reconnect", "--connections-max", "4", "--prefix", "few"],
    );
    devices_are_here(&server, &sim, 60);
    until("a line about all devices", || sim.talk().contains("60 up to date").then_some(()));
    let (code, result) = sim.interrupt();
    assert_eq!(code, 0, "{result}");
    let connections = &result["connections"];
    assert!((1..=4).contains(&connections["peak"].as_u64().unwrap()), "{result}");
    assert!(connections["opened"].as_u64().unwrap() > 60, "each reconnects: {result}");
    assert_eq!((&result["prefix"], &result["connectionsMax"]), (&"few".into(), &4.into()));
    // Without --clean they stay for the next run and can be cleaned up later.
    assert_eq!(server.json(&["status"])["devices"], 60);
    let seen = server.run(&["sim", "--devices", "0", "--clean", "--prefix", "few"]);
    assert_eq!(seen.code, 0, "{}", seen.stderr);
    assert!(seen.stderr.contains("60 clients named `few-…` are decommissioned."), "{}", seen.stderr);
    assert_eq!(server.json(&["status"])["devices"], 0);
}

#[test]
fn an_embedded_server_deploys_a_sample() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = margrave(folder.path());
    command.args(["sim", "--embedded", "--devices", "30", "--poll", "1s", "-o", "json"]);
    let sim = Sim::start(command, folder.path());
    until("a deployment that is installed", || {
        sim.talk().lines().any(|line| line.ends_with(" installed") && line.contains("30 reporting")).then_some(())
    });
    let (_, result) = sim.interrupt();
    assert!(result["deployments"]["installed"].as_u64().unwrap() > 0, "{result}");
}

#[test]
fn sets_the_exit_code_if_devices_are_not_up_to_date() {
    let server = Server::start();
    // The server rejects a decommissioned client; the errors appear in the result.
    let sim = simulate(&server, &["--devices", "3", "--poll", "1s"]);
    devices_are_here(&server, &sim, 3);
    assert_eq!(server.run(&["client", "decommission", "sim-00002", "--yes"]).code, 0);
    until("a line about errors", || {
        let talk = sim.talk();
        talk.lines().any(|line| line.contains(" errors") && !line.contains(" 0 errors")).then_some(())
    });
    let (code, result) = sim.interrupt();
    assert_eq!(code, 1, "{result}");
    assert!(result["problems"][0].as_str().unwrap().contains("requests failed"), "{result}");
    assert!(!result["errors"].as_object().unwrap().is_empty(), "{result}");
}

fn refused(arguments: &[&str], expected: &str) {
    let home = tempfile::tempdir().unwrap();
    let seen = CommandOutput::of(margrave(home.path()).arg("sim").args(arguments).output().unwrap());
    assert_eq!(seen.code, 2, "{arguments:?}: {}", seen.stderr);
    assert!(seen.stderr.contains(expected), "{arguments:?}: {}", seen.stderr);
}

#[test]
fn rejects_invalid_simulation_options() {
    refused(&["--devices", "20", "--connections-max", "10"], "use `reconnect`");
    refused(&["--connections-max", "10001"], "--connections-max: must be between 1 and 10000");
    refused(&["--devices", "300000"], "too many for one process");
    refused(&["--devices", "0"], "--devices: must be at least 1");
    refused(&["--poll", "0s"], "--poll: must be greater than zero");
    refused(&["--prefix", "a/b"], "--prefix: ");
    refused(&["--errors-max", "7"], "--errors-max: must be a share");
    refused(&["--profile", "stormy"], "built-in profiles are steady, flaky, plant");
    refused(&["--embedded", "--data", "x"], "cannot be used with");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("profile.toml");
    std::fs::write(&file, "[offlin]\nshare = 1.0\n").unwrap();
    refused(
        &["--profile", file.to_str().unwrap()],
        "line 1, column 2: `offlin` unknown setting; did you mean `offline`?",
    );
    refused(&["--devices", "1"], "no server given");
}

#[test]
fn reports_a_low_open_file_limit_before_starting() {
    let home = tempfile::tempdir().unwrap();
    let script = format!("ulimit -n 300 && exec '{}' sim --devices 5000", env!("CARGO_BIN_EXE_margrave"));
    let output = Command::new("bash").args(["-c", &script]).env("XDG_CONFIG_HOME", home.path()).output().unwrap();
    let seen = CommandOutput::of(output);
    assert_eq!(seen.code, 2);
    assert!(seen.stderr.contains("5256 open files needed, the limit of this process is 300"), "{}", seen.stderr);
    assert!(seen.stderr.contains("next: `ulimit -n 5256`"), "{}", seen.stderr);
}

#[test]
fn prints_a_profile_as_a_template() {
    let home = tempfile::tempdir().unwrap();
    let print = |name: &str| {
        CommandOutput::of(margrave(home.path()).args(["sim", "--profile", name, "--show-profile"]).output().unwrap())
    };
    let seen = print("plant");
    assert_eq!(seen.code, 0);
    let file = home.path().join("mine.toml");
    std::fs::write(&file, &seen.stdout).unwrap();
    assert_eq!(print(file.to_str().unwrap()).stdout, seen.stdout);
}
