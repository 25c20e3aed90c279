//! First boot with a preloaded desired state: handled like a manifest of the server, only if there is none yet.

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
    /// Accepted like any manifest: it sets the rollback floor (DS-22, DS-23).
    pub(super) fn preload(&mut self, preloaded: Result<Preloaded, String>, now: Timestamp, rng: &mut dyn RngCore) {
        if !self.is_blank() {
            return;
        }
        match preloaded.and_then(read) {
            // The server takes precedence; while a poll is in flight, its answer comes first.
            Ok(_) if !self.network.is_idle() => {}
            Ok(pending) => {
                if let Some(digest) = pending.lacks() {
                    return self.refuse_preload(format!("it lacks deployment {digest}, which its manifest names"), now);
                }
                self.log(Level::Info, None, None, "first boot: using the preloaded desired state");
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
