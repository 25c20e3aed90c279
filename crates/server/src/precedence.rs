//! Device reports have priority. With a single writer connection, a batch of a large rollout starts when no report
//! waits, and reports that arrive meanwhile are written together after it.

use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// Current and waiting writers; cheap to clone.
#[derive(Debug, Clone)]
pub struct Precedence(Arc<PriorityState>);

#[derive(Debug)]
struct PriorityState {
    /// Reports from their arrival until they are answered.
    reports: watch::Sender<usize>,
    /// Whether a batch is being written.
    batch: watch::Sender<bool>,
}

impl Default for Precedence {
    fn default() -> Self {
        Self(Arc::new(PriorityState { reports: watch::Sender::new(0), batch: watch::Sender::new(false) }))
    }
}

impl Precedence {
    /// A report to be written; ends when dropped.
    pub(crate) fn report(&self) -> Report {
        self.count(|reports| reports + 1);
        Report(self.clone())
    }

    /// Returns when no batch is being written.
    pub(crate) async fn after_batch(&self) {
        let mut batch = self.0.batch.subscribe();
        // The sender lives as long as this does.
        let _over = batch.wait_for(|batch| !batch).await;
    }

    /// A batch to be written; ends when dropped. Waits for the reports before it, at most for `max_wait`: a fleet
    /// that never stops reporting delays other work, but never blocks it.
    pub(crate) async fn batch(&self, max_wait: Duration) -> Batch {
        let mut reports = self.0.reports.subscribe();
        let _out_of_patience = tokio::time::timeout(max_wait, reports.wait_for(|reports| *reports == 0)).await;
        self.0.batch.send_replace(true);
        Batch(self.clone())
    }

    /// Wakes a batch only when the last report is answered.
    fn count(&self, next: impl FnOnce(usize) -> usize) {
        self.0.reports.send_if_modified(|reports| {
            *reports = next(*reports);
            *reports == 0
        });
    }
}

/// See [`Precedence::report`].
#[derive(Debug)]
pub(crate) struct Report(Precedence);

impl Drop for Report {
    fn drop(&mut self) {
        self.0.count(|reports| reports.saturating_sub(1));
    }
}

/// See [`Precedence::batch`].
#[derive(Debug)]
pub(crate) struct Batch(Precedence);

impl Drop for Batch {
    fn drop(&mut self) {
        self.0.0.batch.send_replace(false);
    }
}

#[cfg(test)]
mod tests {
    use super::Precedence;
    use futures_util::poll;
    use std::pin::pin;
    use std::time::Duration;

    const LONG: Duration = Duration::from_hours(1);

    #[tokio::test]
    async fn a_batch_waits_for_the_last_report() {
        let precedence = Precedence::default();
        drop(precedence.batch(LONG).await);
        let (first, second) = (precedence.report(), precedence.report());
        let mut batch = pin!(precedence.batch(LONG));
        assert!(poll!(batch.as_mut()).is_pending());
        drop(first);
        assert!(poll!(batch.as_mut()).is_pending());
        drop(second);
        assert!(poll!(batch.as_mut()).is_ready());
    }

    #[tokio::test]
    async fn collects_reports_until_the_batch_is_written() {
        let precedence = Precedence::default();
        precedence.after_batch().await;
        let batch = precedence.batch(LONG).await;
        let mut behind = pin!(precedence.after_batch());
        assert!(poll!(behind.as_mut()).is_pending());
        drop(batch);
        assert!(poll!(behind.as_mut()).is_ready());
    }

    #[tokio::test(start_paused = true)]
    async fn a_continuous_stream_of_reports_does_not_block_a_batch() {
        let precedence = Precedence::default();
        let _report = precedence.report();
        let started = tokio::time::Instant::now();
        drop(precedence.batch(Duration::from_millis(20)).await);
        assert_eq!(started.elapsed().as_millis(), 20);
    }
}
