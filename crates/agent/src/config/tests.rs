use super::*;

#[test]
fn the_example_is_the_default() {
    let example: AgentConfig = toml::from_str(EXAMPLE).unwrap();
    assert_eq!(example, AgentConfig::default());
}

#[test]
fn every_key_of_the_example_can_be_used() {
    let config: AgentConfig = toml::from_str(&check::uncommented()).unwrap();
    assert_eq!(config.child.len(), 1);
    assert!(config.proxy.is_some() && config.trust.pin.is_some() && config.identity.key.is_some());
}

#[test]
fn the_simulated_runtime_is_opt_in() {
    assert_eq!(AgentConfig::default().runtime, None);
    let written: AgentConfig = toml::from_str("runtime = \"simulated\"").unwrap();
    assert_eq!(written.runtime, Some(RuntimeKind::Simulated));
}

#[test]
fn rejects_unknown_keys_by_name() {
    for (text, key) in [("sevrer = \"https://x\"", "sevrer"), ("[poll]\nperoid = \"1s\"", "peroid")] {
        let error = toml::from_str::<AgentConfig>(text).unwrap_err().to_string();
        assert!(error.contains(key), "{error}");
    }
    // Every key of the structs is in the example: serde lists them all when it rejects one.
    for section in [
        "",
        "[device]",
        "[poll]",
        "[retry]",
        "[identity]",
        "[trust]",
        "[http]",
        "[simulated]",
        "[artifacts]",
        "[telemetry]",
        "[compose]",
        "[kubernetes]",
    ] {
        let error = toml::from_str::<AgentConfig>(&format!("{section}\nxx = 1")).unwrap_err().to_string();
        let listed = error.split_once("expected ").unwrap().1;
        for name in listed.split('`').skip(1).step_by(2) {
            let key = format!("{}.{name}", section.trim_matches(['[', ']']));
            let key = key.trim_start_matches('.');
            let inside = format!("{key}.");
            assert!(check::known().iter().any(|known| known == key || known.starts_with(&inside)), "{key}");
        }
    }
}

#[test]
fn durations_have_units() {
    assert_eq!(duration::parse("200ms"), Ok(Duration::from_millis(200)));
    assert_eq!(duration::parse("12h"), Ok(Duration::from_hours(12)));
    for text in ["", "5", "s", "-1s", "1 fortnight", "99999999999999999999s"] {
        assert!(duration::parse(text).unwrap_err().contains("60s"), "{text}");
    }
}

#[test]
fn rejects_invalid_values_by_name() {
    let cases = [
        ("[poll]\nperiod = \"0s\"", "poll.period"),
        ("[poll]\njitter = 2.0", "poll.jitter"),
        ("[poll]\nlong_poll = \"61m\"", "poll.long_poll"),
        ("[poll]\nhours = [\"6-7\"]", "poll.hours"),
        ("[poll]\ndowntime = [\"x\"]", "poll.downtime"),
        ("[poll]\ntime_zone = \"Middle/Earth\"", "poll.time_zone"),
        ("[kubernetes]\ndeployment_types = [\"compose\"]", "kubernetes.deployment_types"),
        ("[kubernetes]\nhelm = \"\"", "kubernetes.helm"),
        ("[kubernetes]\ncontext = \"x\"", "kubernetes.context"),
        ("[kubernetes]\nnamespace = \"kube-system\"", "kubernetes.namespace"),
    ];
    for (text, key) in cases {
        let config: AgentConfig = toml::from_str(text).unwrap();
        assert!(config.settings().unwrap_err().to_string().contains(key), "{key}");
    }
}

#[test]
fn reports_all_problems_with_file_line_column_and_key() {
    let text = "sevrer = \"https://x\"\nstate_dir = 3\n[poll]\nperiod = \"soon\"\n  jitter = 2.0\nhours = [\"6-7\"]\n";
    let error = check::read(Path::new("agent.toml"), text, check::Depth::Settings).unwrap_err().to_string();
    let lines: Vec<_> = error.lines().skip(1).map(str::trim).collect();
    for (line, expected) in lines.iter().zip([
        "agent.toml, line 1, column 1, `sevrer`: unknown setting; did you mean `server`?",
        "agent.toml, line 2, column 1, `state_dir`: invalid value integer `3`: write",
        "agent.toml, line 4, column 1, `poll.period`: `soon` is not a duration",
        "agent.toml, line 5, column 3, `poll.jitter`: must be a fraction of the period, 0.0 to 0.9",
        "agent.toml, line 6, column 1, `poll.hours`: ",
    ]) {
        assert!(line.starts_with(expected), "{line}");
    }
    assert_eq!(lines.len(), 5, "{error}");
}

#[test]
fn only_the_check_reports_missing_files_and_folders() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("agent.toml");
    std::fs::write(folder.path().join("file"), "").unwrap();
    let shown = folder.path().display();
    let text = format!(
        "state_dir = \"{shown}/file/state\"\n[device]\ncapabilities = \"{shown}/none.yaml\"\n\
         [[child]]\nid = \"plc\"\ncapabilities = \"{shown}/none.yaml\"\n\
         [kubernetes]\nkubeconfig = \"{shown}/none\"\nhelm = \"{shown}/helm\"\n"
    );
    std::fs::write(&path, text).unwrap();
    AgentConfig::read(&path).unwrap();
    let error = AgentConfig::check(&path).unwrap_err().to_string();
    for key in [
        "line 1, column 1, `state_dir`",
        "`device.capabilities`",
        "line 6, column 1, `child[0].capabilities`",
        "`kubernetes.kubeconfig`",
        "line 9, column 1, `kubernetes.helm`",
    ] {
        assert!(error.contains(key), "{error}");
    }
}
