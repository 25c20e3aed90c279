//! Resolves the names and beginnings of ids on the command line. The server looks them up, so that no command lists a
//! fleet.

use super::Session;
use crate::failure::{Exit, Failure, Outcome};
use margo::similar::did_you_mean;
use margrave_api::lookup::{Lookup, LookupKind, LookupMatch};

/// The only object with this name; otherwise lists the candidates, or names that may be meant.
pub(crate) async fn only(session: &Session, kind: LookupKind, name: &str) -> Outcome<LookupMatch> {
    let lookup = session.api.lookup(kind, name).await?;
    chosen(kind, name, lookup)
}

fn chosen(kind: LookupKind, name: &str, lookup: Lookup) -> Outcome<LookupMatch> {
    let noun = kind.as_str();
    let Lookup { mut matches, more, similar } = lookup;
    match matches.len() {
        0 => {
            let failure = Failure::new(Exit::NotFound, format!("no {noun} `{name}`{}", did_you_mean(&similar)));
            Err(failure.next(match kind {
                LookupKind::Application => "`margrave app list` lists all".to_owned(),
                LookupKind::Device => "`margrave device list` lists all; use client/device or the device id".to_owned(),
                _ => format!("`margrave {noun} list` lists all"),
            }))
        }
        1 if !more => Ok(matches.remove(0)),
        count => {
            let many = if more { format!("at least {}", count + 1) } else { count.to_string() };
            let failure = Failure::usage(format!("`{name}` matches {many} {noun}s"));
            let failure = matches.iter().fold(failure, |failure, one| failure.because(described(one)));
            Err(failure.next(match kind {
                LookupKind::Device => "use client/device",
                _ => "use a longer prefix",
            }))
        }
    }
}

fn described(one: &LookupMatch) -> String {
    match (&one.client, &one.name) {
        (Some(client), _) => format!("{client}/{}", one.id),
        (None, Some(name)) => format!("{} ({name})", one.id),
        (None, None) => one.id.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(ids: &[&str], more: bool) -> Lookup {
        let one = |id: &&str| LookupMatch { id: (*id).to_owned(), client: None, name: Some("line-monitor".to_owned()) };
        Lookup { matches: ids.iter().map(one).collect(), more, similar: Vec::new() }
    }

    #[test]
    fn lists_the_candidates_of_an_ambiguous_prefix() {
        let failure = chosen(LookupKind::Deployment, "3f", found(&["3f2a", "3f2b"], false)).unwrap_err();
        assert_eq!(
            failure.render(false),
            "error: `3f` matches 2 deployments\n  - 3f2a (line-monitor)\n  - 3f2b (line-monitor)\nnext: use a longer prefix"
        );
        let failure = chosen(LookupKind::Rollout, "3", found(&["3f2a"], true)).unwrap_err();
        assert!(failure.what.contains("at least 2 rollouts"), "{}", failure.what);
    }

    #[test]
    fn suggests_names_that_may_be_meant() {
        let similar = vec!["press-01".to_owned(), "press-02".to_owned()];
        let lookup = Lookup { matches: Vec::new(), more: false, similar };
        let failure = chosen(LookupKind::Device, "prss-01", lookup).unwrap_err();
        assert_eq!(failure.what, "no device `prss-01`; did you mean `press-01` or `press-02`?");
        assert_eq!(failure.exit, Exit::NotFound);
    }
}
