//! An example for every command, shown in its help and man page, and parsed by a test.

use crate::arguments::Cli;
use clap::CommandFactory as _;

/// Examples by command name without `margrave`. Commands with longer help define their examples themselves.
const EXAMPLES: &[(&str, &str)] = &[
    (
        "serve",
        "margrave serve --data ./fleet
margrave serve --config /etc/margrave/margrave.toml
margrave serve --data ./fleet --devices 127.0.0.1:9443 --trust 127.0.0.1:9444 --operators 127.0.0.1:9080
margrave serve --data ./fleet --operators 0.0.0.0:8080 --name fleet.example",
    ),
    ("demo", "margrave demo\nmargrave demo --data ./demo --devices 12 --check"),
    (
        "sim",
        "margrave sim --embedded --devices 500 --poll 5s --for 1m
margrave --data ./fleet sim --devices 2000 --poll 60s --profile plant --for 10m -o json
margrave --data ./fleet sim --devices 20000 --connections reconnect --connections-max 5000
margrave --data ./fleet sim --devices 0 --clean",
    ),
    (
        "config check",
        "margrave config check /etc/margrave/margrave.toml\nmargrave config check --config margrave.toml --data ./fleet -o json",
    ),
    (
        "config show",
        "margrave config show --config margrave.toml\nmargrave config show --data ./fleet --operators 0.0.0.0:8080 -o json",
    ),
    ("config example", "margrave config example > margrave.toml"),
    ("config reference", "margrave config reference"),
    ("logout", "margrave logout"),
    ("status", "margrave status\nmargrave status -o json"),
    ("app list", "margrave app list"),
    ("app show", "margrave app show line-monitor"),
    ("app explain", "margrave app explain line-monitor"),
    ("app diff", "margrave app diff line-monitor 1.0.0 1.1.0"),
    ("app parameters", "margrave app parameters line-monitor 1.1.0"),
    ("app delete", "margrave app delete line-monitor 1.0.0 --comment \"replaced by 1.1.0\" --yes"),
    ("device list", "margrave device list --selector site=graz\nmargrave device list --state failed --watch"),
    ("device show", "margrave device show press-07"),
    ("device explain", "margrave device explain press-07"),
    ("device delete", "margrave device delete press-07 --comment scrapped --yes"),
    ("client list", "margrave client list\nmargrave client list --state pending"),
    ("client show", "margrave client show press-07"),
    ("client accept", "margrave client accept press-07 --note \"hall 2\""),
    ("client reject", "margrave client reject press-08 --comment 'unknown device' --yes"),
    ("client decommission", "margrave client decommission press-07 --comment stolen --yes"),
    ("client enrollment-token", "margrave client enrollment-token press-07 --valid-for 2h"),
    ("enrollment-token list", "margrave enrollment-token list\nmargrave enrollment-token list -o json"),
    ("enrollment-token revoke", "margrave enrollment-token revoke press-07 --comment \"wrong plant\" --yes"),
    ("group list", "margrave group list"),
    ("group show", "margrave group show presses"),
    ("group delete", "margrave group delete presses --yes"),
    ("group devices", "margrave group devices presses"),
    ("deployment list", "margrave deployment list --app line-monitor --state failed"),
    ("deployment show", "margrave deployment show 0f3c"),
    ("deployment explain", "margrave deployment explain 0f3c"),
    ("deployment history", "margrave deployment history 0f3c"),
    ("deployment document", "margrave deployment document 0f3c --revision 2"),
    ("deployment remove", "margrave deployment remove --app line-monitor --selector site=graz --yes --wait"),
    ("deployment retry", "margrave deployment retry 0f3c --comment \"the disk is free again\""),
    ("deployment wait", "margrave deployment wait 0f3c --timeout 5m"),
    ("rollout list", "margrave rollout list"),
    ("rollout show", "margrave rollout show 3e1a"),
    ("rollout cancel", "margrave rollout cancel 3e1a --comment \"wrong version\" --yes"),
    ("rollout withdraw", "margrave rollout withdraw 3e1a --comment \"the line is being rebuilt\" --yes"),
    ("rollout retry", "margrave rollout retry 3e1a --comment \"the registry is back\" --yes"),
    ("rollout wait", "margrave rollout wait 3e1a --timeout 5m"),
    ("registry show", "margrave registry show"),
    ("registry list", "margrave registry list"),
    ("registry gc", "margrave registry gc"),
    ("registry external", "margrave registry external\nmargrave registry external -o json"),
    ("registry remove", "margrave registry remove registry.example --comment \"contract ended\" --yes"),
    ("registry copies", "margrave registry copies --watch"),
    ("registry cancel-copy", "margrave registry cancel-copy 71ab --yes"),
    ("trust show", "margrave trust show"),
    ("trust bundle", "margrave trust bundle > bundle.pem"),
    ("trust https-ca", "margrave trust https-ca > https-ca.pem"),
    ("token list", "margrave token list"),
    ("token revoke", "margrave token revoke 5d21 --comment \"left the team\" --yes"),
    ("user list", "margrave user list"),
    ("session list", "margrave session list\nmargrave session list --watch"),
    ("session end", "margrave session end 8c41 --comment \"left at the shared desk\" --yes"),
    ("audit verify", "margrave audit verify"),
    ("doctor", "margrave doctor\nmargrave --data ./fleet doctor"),
    (
        "completions",
        "margrave completions bash > /etc/bash_completion.d/margrave
margrave completions zsh > ~/.zfunc/_margrave
margrave completions fish --program margrave-agent > ~/.config/fish/completions/margrave-agent.fish",
    ),
    ("man", "margrave man --out /usr/local/share/man/man1"),
];

/// The complete command line, with examples in the help and `--watch` for commands that show something.
pub(crate) fn command() -> clap::Command {
    with_examples(crate::watch::add(Cli::command()), "")
}

fn with_examples(command: clap::Command, path: &str) -> clap::Command {
    let names: Vec<String> = command.get_subcommands().map(|inner| inner.get_name().to_owned()).collect();
    let mut command = command;
    if let Some((_, lines)) = EXAMPLES.iter().find(|(of, _)| *of == path) {
        let lines: String = lines.lines().flat_map(|line| ["\n  ", line]).collect();
        let more = command.get_after_help().map(|help| format!("\n\n{help}")).unwrap_or_default();
        command = command.after_help(format!("Examples:{lines}{more}"));
    }
    for name in names {
        let path = if path.is_empty() { name.clone() } else { format!("{path} {name}") };
        command = command.mut_subcommand(name, |inner| with_examples(inner, &path));
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Splits a command line like a shell, up to a comment, a pipe or a redirection.
    fn words(line: &str) -> Vec<String> {
        let mut words = vec![String::new()];
        let mut quote = None;
        for character in line.chars() {
            let word = words.last_mut().expect("there is always a last word");
            match (quote, character) {
                (Some(open), close) if open == close => quote = None,
                (None, '"' | '\'') => quote = Some(character),
                (None, '#' | '|' | '>' | '<') if word.is_empty() => break,
                (None, ' ') if word.is_empty() => {}
                (None, ' ') => words.push(String::new()),
                (_, character) => word.push(character),
            }
        }
        words.retain(|word| !word.is_empty());
        words
    }

    fn visit(command: &clap::Command, path: &str, seen: &mut Vec<String>) {
        for inner in command.get_subcommands().filter(|inner| inner.get_name() != "help") {
            let path = format!("{path} {}", inner.get_name());
            assert!(inner.get_about().is_some_and(|about| !about.to_string().is_empty()), "{path} has no description");
            if inner.has_subcommands() {
                visit(inner, &path, seen);
                continue;
            }
            let help = inner.get_after_help().map(ToString::to_string).unwrap_or_default();
            let examples: Vec<_> =
                help.lines().map(str::trim).filter(|line| line.starts_with("margrave ")).map(words).collect();
            assert!(!examples.is_empty(), "`{path}` has no example: add one to EXAMPLES in examples.rs");
            for example in examples {
                super::command().try_get_matches_from(&example).unwrap_or_else(|error| panic!("{path}: {error}"));
            }
            seen.push(path);
        }
    }

    #[test]
    fn every_command_has_a_description_and_a_valid_example() {
        let mut seen = Vec::new();
        visit(&command(), "margrave", &mut seen);
        assert!(seen.len() > 40, "{seen:?}");
        for (path, _) in EXAMPLES {
            assert!(seen.contains(&format!("margrave {path}")), "`{path}` is not a command");
        }
    }
}
