//! Carries out changes in bounded batches, one after the other; resumes after a restart.

/// Wakes the publishing loop; cheap to clone.
#[derive(Debug, Clone)]
pub struct Publisher {}

impl Publisher {
    /// Says that there is a change to carry out. Losing the word costs a delay, never a change.
    pub fn wake(&self) {
        todo!()
    }
}
