use super::*;

#[test]
fn the_example_is_the_default() {
    let example: AgentConfig = toml::from_str(EXAMPLE).unwrap();
    assert_eq!(example, AgentConfig::default());
}

#[test]
fn every_key_of_the_example_can_be_used() {
    let uncommented: Vec<&str> = EXAMPLE
        .lines()
        .map(|line| match line.strip_prefix("# ") {
            Some(rest)
                if rest.starts_with('[') || rest.split_once(" = ").is_some_and(|(key, _)| !key.contains(' ')) =>
            {
                rest
            }
            _ => line,
        })
        .collect();
    let config: AgentConfig = toml::from_str(&uncommented.join("\n")).unwrap();
    assert_eq!(config.child.len(), 1);
    assert!(config.proxy.is_some() && config.trust.pin.is_some() && config.identity.key.is_some());
}

#[test]
fn unknown_keys_are_refused_by_name() {
    for (text, key) in [("sevrer = \"https://x\"", "sevrer"), ("[poll]\nperoid = \"1s\"", "peroid")] {
        let error = toml::from_str::<AgentConfig>(text).unwrap_err().to_string();
        assert!(error.contains(key), "{error}");
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
fn values_that_make_no_sense_are_refused_with_their_name() {
    let cases = [
        ("[poll]\nperiod = \"0s\"", "poll.period"),
        ("[poll]\njitter = 2.0", "poll.jitter"),
        ("[poll]\nhold = \"61m\"", "poll.hold"),
        ("[poll]\nhours = [\"6-7\"]", "poll.hours"),
        ("[poll]\ndowntime = [\"x\"]", "poll.downtime"),
        ("[poll]\ntime_zone = \"Middle/Earth\"", "poll.time_zone"),
    ];
    for (text, key) in cases {
        let config: AgentConfig = toml::from_str(text).unwrap();
        assert!(config.settings().unwrap_err().to_string().contains(key), "{key}");
    }
}
