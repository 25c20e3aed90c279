use super::*;
use std::path::PathBuf;
use std::sync::atomic::{AtomicI64, Ordering};

/// A clock that the test advances.
struct ManualClock(AtomicI64);

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::SeqCst))
    }
}

impl ManualClock {
    fn turn(&self, by: Duration) {
        self.0.fetch_add(by.as_micros() as i64, Ordering::SeqCst);
    }
}

fn keeper(config: AgentConfig, clock: &Arc<ManualClock>) -> ConnectionManager {
    let clock = Arc::clone(clock) as Arc<dyn Clock>;
    ConnectionManager::new(config, clock, Host { types: &["compose"], simulated: false }).unwrap()
}

fn messages_of(events: Vec<Event>) -> Vec<String> {
    events.into_iter().map(|event| event.message).collect()
}

#[tokio::test]
async fn a_device_without_identity_logs_a_reminder() {
    let folder = tempfile::tempdir().unwrap();
    let config = AgentConfig { state_dir: folder.path().to_owned(), ..AgentConfig::default() };
    let clock = Arc::new(ManualClock(AtomicI64::new(1_790_000_000_000_000)));
    let mut keeper = keeper(config, &clock);
    let first = messages_of(keeper.check().await);
    assert!(first.len() == 1 && first[0].contains("no identity yet: waiting for `margrave-agent enroll"), "{first:?}");
    clock.turn(REMINDER.saturating_sub(Duration::from_secs(1)));
    assert_eq!(messages_of(keeper.check().await), Vec::<String>::new(), "not at every check");
    clock.turn(Duration::from_secs(1));
    assert_eq!(messages_of(keeper.check().await), first);
    assert_eq!(messages_of(keeper.check().await), Vec::<String>::new());
    let trouble = keeper.trouble(clock.now()).unwrap();
    assert_eq!((trouble.code, trouble.message), (Code::IdentityUnusable, first[0].clone()), "`status` says the same");
}

#[tokio::test]
async fn names_the_configured_token_file() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = AgentConfig { state_dir: folder.path().to_owned(), ..AgentConfig::default() };
    config.trust.token_file = Some(PathBuf::from("/nowhere/enrollment-token"));
    let clock = Arc::new(ManualClock(AtomicI64::new(1_790_000_000_000_000)));
    let mut keeper = keeper(config, &clock);
    let message = loop {
        let message = messages_of(keeper.check().await);
        if !message.is_empty() {
            break message;
        }
        tokio::task::yield_now().await;
    };
    assert!(message[0].contains("waiting for a token in `/nowhere/enrollment-token`"), "{message:?}");
}
