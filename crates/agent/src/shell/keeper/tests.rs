use super::*;
use std::path::PathBuf;
use std::sync::atomic::{AtomicI64, Ordering};

/// Goes only when told.
struct Hand(AtomicI64);

impl Clock for Hand {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::SeqCst))
    }
}

impl Hand {
    fn turn(&self, by: Duration) {
        self.0.fetch_add(by.as_micros() as i64, Ordering::SeqCst);
    }
}

fn keeper(config: AgentConfig, clock: &Arc<Hand>) -> Keeper {
    let clock = Arc::clone(clock) as Arc<dyn Clock>;
    Keeper::new(config, clock, Host { types: &["compose"], simulated: false }).unwrap()
}

fn told(events: Vec<Event>) -> Vec<String> {
    events.into_iter().map(|event| event.message).collect()
}

#[tokio::test]
async fn a_device_without_an_identity_says_now_and_then_what_it_waits_for() {
    let folder = tempfile::tempdir().unwrap();
    let config = AgentConfig { state_dir: folder.path().to_owned(), ..AgentConfig::default() };
    let clock = Arc::new(Hand(AtomicI64::new(1_790_000_000_000_000)));
    let mut keeper = keeper(config, &clock);
    let first = told(keeper.check().await);
    assert!(first.len() == 1 && first[0].contains("no identity yet: waits for `margrave-agent enrol"), "{first:?}");
    clock.turn(REMINDER.saturating_sub(Duration::from_secs(1)));
    assert_eq!(told(keeper.check().await), Vec::<String>::new(), "not at every look");
    clock.turn(Duration::from_secs(1));
    assert_eq!(told(keeper.check().await), first);
    assert_eq!(told(keeper.check().await), Vec::<String>::new());
    let trouble = keeper.trouble(clock.now()).unwrap();
    assert_eq!((trouble.code, trouble.message), (Code::IdentityUnusable, first[0].clone()), "`status` says the same");
}

#[tokio::test]
async fn a_device_that_is_set_up_with_a_token_file_names_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = AgentConfig { state_dir: folder.path().to_owned(), ..AgentConfig::default() };
    config.trust.token_file = Some(PathBuf::from("/nowhere/enrolment-token"));
    let clock = Arc::new(Hand(AtomicI64::new(1_790_000_000_000_000)));
    let mut keeper = keeper(config, &clock);
    let said = loop {
        let said = told(keeper.check().await);
        if !said.is_empty() {
            break said;
        }
        tokio::task::yield_now().await;
    };
    assert!(said[0].contains("waits for a token in `/nowhere/enrolment-token`"), "{said:?}");
}
