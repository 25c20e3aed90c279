//! The binary itself: output and exit codes.

use crate::pki::{client_id, provision};
use crate::support::{World, eventually, set, version};
use std::path::Path;
use std::process::{Output, Stdio};

pub(crate) async fn command(arguments: &[&str]) -> Output {
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_margrave-agent"));
    command.args(arguments).stdin(Stdio::null()).kill_on_drop(true).output().await.unwrap()
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

pub(crate) fn write_config(world: &World, folder: &Path, script: &str) -> String {
    let leaf = world.authority.svid(&client_id("press-07"));
    let [certificate, key, bundle] =
        provision(folder, &leaf, &world.authority.pem).map(|path| path.display().to_string());
    std::fs::write(folder.join("script.toml"), script).unwrap();
    let (url, state) = (world.fake.url(), folder.join("state").display().to_string());
    let script = folder.join("script.toml").display().to_string();
    let config = format!(
        "server = \"{url}\"\nstate_dir = \"{state}\"\nruntime = \"simulated\"\nobserve_period = \"100ms\"\n\
         poll = {{period = \"100ms\"}}\nretry = {{first = \"50ms\", max = \"10s\"}}\n\
         identity = {{certificate = \"{certificate}\", key = \"{key}\", trust_bundle = \"{bundle}\"}}\n\
         simulated = {{script = \"{script}\"}}\n"
    );
    let path = folder.join("agent.toml");
    std::fs::write(&path, config).unwrap();
    path.display().to_string()
}

#[tokio::test]
async fn status_and_explain_work_after_once() {
    let world = World::new().await;
    let deployments = set(2, "1.0.0");
    world.fake.publish(&version(1, &deployments), &deployments);
    let folder = tempfile::tempdir().unwrap();
    let config = write_config(&world, folder.path(), "");
    let once = command(&["--config", &config, "once"]).await;
    assert_eq!(once.status.code(), Some(0), "{}", text(&once.stderr));
    assert!(!text(&once.stdout).contains('\u{1b}'), "no colors in a pipe");
    let status = command(&["--config", &config, "status", "-o", "json"]).await;
    let status: serde_json::Value = serde_json::from_slice(&status.stdout).unwrap();
    assert_eq!(status["state"], "up-to-date");
    assert_eq!(status["deployments"].as_array().unwrap().len(), 2);
    let explain = text(&command(&["--config", &config, "explain", "app-1"]).await.stdout);
    assert!(
        explain.contains("Everything runs as manifest version 2 says")
            && explain.contains("component web is installed")
    );
    assert!(!explain.contains("app-2"));
}

#[tokio::test]
async fn once_distinguishes_a_failed_deployment_from_a_timeout() {
    let world = World::new().await;
    let deployments = set(1, "1.0.0");
    world.fake.publish(&version(1, &deployments), &deployments);
    let folder = tempfile::tempdir().unwrap();
    let config = write_config(&world, folder.path(), "rule = [{fail = \"always\", message = \"image not found\"}]");
    let once = command(&["--config", &config, "once"]).await;
    assert_eq!(once.status.code(), Some(1), "{}", text(&once.stderr));
    let explain = text(&command(&["--config", &config, "explain"]).await.stdout);
    for part in ["could not be applied", "301", "image not found", "waiting for the next retry", "next steps: "] {
        assert!(explain.contains(part), "`{part}` in {explain}");
    }
    let state = folder.path().join("other").display().to_string();
    let unreachable_server =
        ["--config", &config, "--state-dir", &state, "--server", "https://127.0.0.1:1", "once", "--timeout", "1s"];
    assert_eq!(command(&unreachable_server).await.status.code(), Some(3));
}

#[tokio::test]
async fn hold_logs_and_hold_end_work_on_the_command_line() {
    let world = World::new().await;
    let deployments = set(1, "1.0.0");
    world.fake.publish(&version(1, &deployments), &deployments);
    let folder = tempfile::tempdir().unwrap();
    let config = write_config(&world, folder.path(), "");
    let nowhere = command(&["--config", &config, "hold", "--for", "2h", "--comment", "fan"]).await;
    assert!(text(&nowhere.stderr).contains("has the agent ever run here?"), "{}", text(&nowhere.stderr));
    assert_eq!(command(&["--config", &config, "once"]).await.status.code(), Some(0));
    let logs = command(&["--config", &config, "logs", "app-1", "--component", "web", "--lines", "5"]).await;
    assert_eq!(text(&logs.stdout), "web | simulated start 1\n", "{}", text(&logs.stderr));
    let missing = command(&["--config", &config, "logs", "app-9"]).await;
    assert!(text(&missing.stderr).contains("see `margrave-agent status`"));
    let hold = command(&["--config", &config, "hold", "--for", "2h", "--comment", "changing the fan"]).await;
    assert!(text(&hold.stdout).contains("no changes until"), "{}", text(&hold.stderr));
    let more = set(2, "1.0.0");
    world.fake.publish(&version(2, &more), &more);
    let once = command(&["--config", &config, "once", "--timeout", "2s"]).await;
    assert_eq!(once.status.code(), Some(3), "nothing settles while changes wait");
    let status = text(&command(&["--config", &config, "status"]).await.stdout);
    assert!(status.contains("maintenance hold until") && status.contains("changing the fan"), "{status}");
    let explain = text(&command(&["--config", &config, "explain"]).await.stdout);
    for part in ["Maintenance hold until", "drift correct, on failure keep-partial", "the end of the maintenance hold"]
    {
        assert!(explain.contains(part), "`{part}` in {explain}");
    }
    assert!(text(&command(&["--config", &config, "hold", "--end"]).await.stdout).contains("changes continue"));
    assert_eq!(command(&["--config", &config, "once"]).await.status.code(), Some(0));
    let longer = command(&["--config", &config, "hold", "--for", "9000h", "--comment", "x"]).await;
    assert!(text(&longer.stderr).contains("at most 7 days"), "{}", text(&longer.stderr));
}

#[tokio::test]
async fn rejects_a_second_agent_in_the_same_folder() {
    let world = World::new().await;
    let folder = tempfile::tempdir().unwrap();
    let config = write_config(&world, folder.path(), "");
    let held = margrave_agent::disk::StateDir::open(&folder.path().join("state")).unwrap();
    let run = command(&["--config", &config, "run"]).await;
    assert_eq!(run.status.code(), Some(1));
    assert!(text(&run.stderr).contains("another agent uses"), "{}", text(&run.stderr));
    drop(held);
}

#[tokio::test]
async fn every_command_refuses_a_state_folder_of_another_format() {
    let world = World::new().await;
    let deployments = set(1, "1.0.0");
    world.fake.publish(&version(1, &deployments), &deployments);
    let folder = tempfile::tempdir().unwrap();
    let config = write_config(&world, folder.path(), "");
    assert_eq!(command(&["--config", &config, "once"]).await.status.code(), Some(0));
    let state = folder.path().join("state");
    std::fs::remove_file(state.join("format")).unwrap();
    let names = || {
        let mut names: Vec<_> = std::fs::read_dir(&state).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let before = names();
    let commands: [&[&str]; 7] = [
        &["run"],
        &["once"],
        &["status"],
        &["explain"],
        &["logs", "app-1"],
        &["hold", "--end"],
        &["enroll", "--trust-url", "https://127.0.0.1:1", "--pin", "sha256:00", "--token", "mge_x"],
    ];
    for arguments in commands {
        let refused = command(&[&["--config", &config], arguments].concat()).await;
        let said = text(&refused.stderr);
        assert_eq!((refused.status.code(), &*text(&refused.stdout)), (Some(1), ""), "{arguments:?}: {said}");
        assert!(said.contains("has no format version and this agent uses format 1"), "{arguments:?}: {said}");
        assert!(said.contains("workloads keep running"), "{arguments:?}: {said}");
        assert_eq!(names(), before, "{arguments:?} changes nothing");
    }
    // The way out that the message names.
    std::fs::rename(&state, folder.path().join("state.before")).unwrap();
    assert_eq!(command(&["--config", &config, "once"]).await.status.code(), Some(0));
}

#[tokio::test]
async fn help_is_complete_and_the_example_configuration_is_valid() {
    let help = text(&command(&["--help"]).await.stdout);
    for part in ["First steps", "enroll --trust-url", "explain"] {
        assert!(help.contains(part), "`{part}` in {help}");
    }
    let example = command(&["config-example"]).await.stdout;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.toml");
    std::fs::write(&path, example).unwrap();
    let missing = folder.path().join("none").display().to_string();
    let status = command(&["--config", &path.display().to_string(), "--state-dir", &missing, "status"]).await;
    assert!(text(&status.stderr).contains("has the agent ever run here?"));
    let enroll = ["--state-dir", &missing, "enroll", "--trust-url", "https://127.0.0.1:1", "--token", "mge_x"];
    let enroll = text(&command(&enroll).await.stderr);
    assert!(enroll.contains("nothing is trusted on first use"), "{enroll}");
}

#[tokio::test]
async fn config_check_lists_all_problems() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.toml");
    let file = path.display().to_string();
    std::fs::write(&path, "sevrer = \"https://x\"\n[poll]\nperiod = 60\njitter = 3.0\n").unwrap();
    let checked = command(&["config", "check", &file]).await;
    assert_eq!(checked.status.code(), Some(1));
    let problems = text(&checked.stderr);
    for expected in [
        "line 1, column 1, `sevrer`: unknown setting; did you mean `server`?",
        "line 3, column 1, `poll.period`: ",
        "line 4, column 1, `poll.jitter`: must be a fraction of the period",
    ] {
        assert!(problems.contains(&format!("{file}, {expected}")), "{problems}");
    }
    let example = text(&command(&["config", "example"]).await.stdout);
    let state = folder.path().join("state").display().to_string();
    std::fs::write(&path, example.replace("/var/lib/margrave-agent", &state)).unwrap();
    let checked = command(&["--config", &file, "config", "check"]).await;
    assert_eq!(checked.status.code(), Some(0), "{}", text(&checked.stderr));
    assert!(!folder.path().join("state").exists(), "checking makes nothing");
}

#[tokio::test]
async fn an_agent_without_identity_reports_what_it_waits_for_without_colors() {
    let folder = tempfile::tempdir().unwrap();
    let (state, file) = (folder.path().join("state"), folder.path().join("agent.toml"));
    let token = folder.path().join("enrollment-token");
    let config = format!(
        "runtime = \"simulated\"\nstate_dir = \"{}\"\ntrust = {{token_file = \"{}\"}}\n",
        state.display(),
        token.display()
    );
    std::fs::write(&file, config).unwrap();
    let file = file.display().to_string();
    let waits = format!("this device has no identity yet: waiting for a token in `{}`, or for", token.display());
    let status = command(&["--config", &file, "status"]).await;
    assert_eq!(status.status.code(), Some(1));
    assert!(text(&status.stderr).contains(&waits), "before the first start: {}", text(&status.stderr));

    let log = folder.path().join("log");
    let mut run = tokio::process::Command::new(env!("CARGO_BIN_EXE_margrave-agent"))
        .args(["--config", &file, "run"])
        .stdin(Stdio::null())
        .stderr(std::fs::File::create(&log).unwrap())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    eventually("it says what it waits for", || std::fs::read_to_string(&log).unwrap().contains(&waits)).await;
    let said = std::fs::read_to_string(&log).unwrap();
    assert!(said.contains("the runtime is simulated") && !said.contains('\u{1b}'), "no colors in a file: {said}");
    let picture = state.join("report.json");
    eventually("`status` knows", || std::fs::read_to_string(&picture).is_ok_and(|json| json.contains(&waits))).await;
    let status = text(&command(&["--config", &file, "status"]).await.stdout);
    assert!(status.contains(&waits), "{status}");
    let explain = text(&command(&["--config", &file, "explain"]).await.stdout);
    assert!(
        explain.contains("this device has no identity to request it with")
            && explain.contains("continues as soon as the identity exists")
            && explain.contains(&waits),
        "{explain}"
    );
    run.kill().await.unwrap();
}

#[tokio::test]
async fn deployments_fail_without_a_runtime_and_are_installed_with_one() {
    let world = World::new().await;
    let wanted = set(2, "1.0.0");
    world.fake.publish(&version(1, &wanted), &wanted);
    let folder = tempfile::tempdir().unwrap();
    let file = write_config(&world, folder.path(), "");
    let simulated = std::fs::read_to_string(&file).unwrap();
    let without = simulated.replace("runtime = \"simulated\"\n", "");
    let last = |number: usize| world.fake.reported(wanted[number].id).pop().unwrap();
    let failed = |number: usize| last(number).error.is_some_and(|error| error.code == "207");

    // As after an update: it pretended before, and now says that nothing ever ran.
    for before in [false, true] {
        std::fs::write(&file, &without).unwrap();
        let once = command(&["--config", &file, "once"]).await;
        let said = text(&once.stderr);
        assert_eq!(once.status.code(), Some(1), "{said}");
        assert!(said.contains("this device cannot run applications") && said.contains(&format!("`{file}`")), "{said}");
        assert_eq!(said.contains("until now this agent only simulated"), before, "{said}");
        assert!(failed(0) && failed(1), "{:?}", last(0));
        let capabilities = world.fake.seen().into_iter().rfind(|seen| seen.path.contains("/capabilities/")).unwrap();
        let capabilities: serde_json::Value = serde_json::from_slice(&capabilities.body).unwrap();
        assert_eq!(capabilities["properties"]["supportedDeploymentTypes"], serde_json::Value::Null);
        assert_eq!(capabilities["x-margrave-extensions"]["runtime"], "none");
        let status = text(&command(&["--config", &file, "status"]).await.stdout);
        assert!(status.contains("207 no runtime is enabled") && status.contains("[compose]"), "{status}");
        let explain = text(&command(&["--config", &file, "explain"]).await.stdout);
        assert!(explain.contains("the agent installs the desired applications"), "{explain}");

        std::fs::write(&file, &simulated).unwrap();
        let status = text(&command(&["--config", &file, "status"]).await.stdout);
        assert!(status.contains("restart the agent"), "{status}");
        let once = command(&["--config", &file, "once"]).await;
        assert_eq!(once.status.code(), Some(0), "{}", text(&once.stderr));
        assert_eq!(last(1).state, margo::status::State::Installed);
        let status = text(&command(&["--config", &file, "status"]).await.stdout);
        assert!(!status.contains("207"), "{status}");
    }
    let check = text(&command(&["config", "check", &file]).await.stdout);
    assert!(check.contains("can be used") && !check.contains("no runtime"), "{check}");
    std::fs::write(&file, &without).unwrap();
    let check = text(&command(&["config", "check", &file]).await.stdout);
    assert!(check.contains("can be used") && check.contains("no runtime is enabled"), "{check}");
}
