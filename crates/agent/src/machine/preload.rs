//! First boot with a desired state that was given beforehand: taken like one of the server, and only when there is none.

use super::Machine;
use super::desired::{Pending, unacceptable};
use super::io::{Level, Preloaded};
use super::report::Topic;
use crate::codes::Code;
use margo::Digest;
use margo::manifest::StateManifest;
use margrave_core::time::Timestamp;
use rand::RngCore;

impl Machine {
    /// Written and acted on as any manifest: it is the rollback floor of the ones to come (DS-22, DS-23).
    pub(super) fn preload(&mut self, preloaded: Result<Preloaded, String>, now: Timestamp, rng: &mut dyn RngCore) {
        if !self.is_blank() {
            return;
        }
        match preloaded.and_then(read) {
            // What the server says comes first; while it is being asked, its answer is waited for.
            Ok(_) if !self.network.is_idle() => {}
            Ok(pending) => {
                if let Some(digest) = pending.lacks() {
                    return self.refuse_preload(format!("it lacks deployment {digest}, which its manifest names"), now);
                }
                self.log(Level::Info, None, None, "first boot: a preloaded desired state is taken");
                self.clear_trouble(Topic::Preload);
                self.pending = Some(pending);
                self.accept_if_complete(now, rng);
            }
            Err(why) => self.refuse_preload(why, now),
        }
    }

    fn refuse_preload(&mut self, why: String, now: Timestamp) {
        self.warn(Code::PreloadRefused, None, format!("the preloaded desired state is not used: {why}"));
        self.note_trouble(Topic::Preload, Code::PreloadRefused, why, None, now);
    }
}

fn read(preloaded: Preloaded) -> Result<Pending, String> {
    let Preloaded { body, etag, documents } = preloaded;
    let manifest = StateManifest::read(body.as_bytes()).map_err(|findings| findings.to_string())?.document;
    if let Some((_, why)) = unacceptable(&manifest) {
        return Err(why);
    }
    match documents.iter().find(|(digest, bytes)| Digest::of(bytes) != *digest) {
        Some((digest, _)) => Err(format!("a deployment does not have digest {digest}")),
        None => Ok(Pending::preloaded(manifest, body, etag, documents)),
    }
}
