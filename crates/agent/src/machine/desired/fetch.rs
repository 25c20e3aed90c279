//! Fetches and verifies the bundle or single files (DS-09, DS-10, DS-18, DS-24).

use super::super::Machine;
use super::super::io::{Answer, Request, Response};
use super::super::network::{LaneName, Sent, explain_answer};
use super::super::report::Topic;
use super::UnfinishedFetch;
use crate::codes::Code;
use margo::archive::ArchiveError;
use margo::bundle::BundleError;
use margo::manifest::{StateManifest, bundle_url, deployment_url};
use margo::{DeploymentId, Digest};
use margrave_core::time::Timestamp;
use rand::RngCore;
use std::collections::HashSet;

/// From this many missing YAMLs on, one bundle is cheaper than the round trips; below it, single files save a metered
/// link from downloading stored content again (DS-24 step 4).
const BUNDLE_FROM_MISSING: usize = 3;

impl Machine {
    pub(super) fn missing(&self, manifest: &StateManifest) -> Vec<(DeploymentId, Digest)> {
        let fetched = self.pending.as_ref().map(|pending| &pending.fetched);
        let mut seen = HashSet::new();
        manifest
            .deployments
            .iter()
            .filter(|deployment| !self.contents.contains_key(&deployment.digest))
            .filter(|deployment| !fetched.is_some_and(|fetched| fetched.contains_key(&deployment.digest)))
            .filter(|deployment| seen.insert(&deployment.digest))
            .map(|deployment| (deployment.deployment_id, deployment.digest.clone()))
            .collect()
    }

    pub(in super::super) fn next_fetch(&self) -> Option<(Sent, Request)> {
        let pending = self.pending.as_ref()?;
        let missing = self.missing(&pending.manifest);
        let first_sync = self.accepted.is_none() && pending.fetched.is_empty();
        match &pending.manifest.bundle {
            Some(bundle)
                if !pending.without_bundle
                    && (missing.len() >= BUNDLE_FROM_MISSING || (first_sync && !missing.is_empty())) =>
            {
                // Built from the digest, not from `url`: this excludes a prefix or a foreign host (W-03).
                Some((Sent::FetchBundle, Request::FetchBundle { path: bundle_url(&bundle.digest) }))
            }
            _ => {
                let (id, digest) = missing.into_iter().next()?;
                Some((Sent::FetchYaml(id), Request::FetchYaml { path: deployment_url(id, &digest) }))
            }
        }
    }

    pub(in super::super) fn bundle_answered(&mut self, answer: Answer, now: Timestamp, rng: &mut dyn RngCore) {
        let Some(body) = self.artifact_body("fetch the bundle", true, answer, now, rng) else { return };
        let Some(pending) = &mut self.pending else { return };
        let Some(bundle) = &pending.manifest.bundle else { return };
        match margo::bundle::unpack(&body, bundle, &pending.manifest.deployments) {
            Ok(files) => {
                for bytes in files.into_values() {
                    pending.fetched.insert(Digest::of(&bytes), bytes.into());
                }
                self.accept_if_complete(now, rng);
            }
            Err(error) => {
                // DS-10: bytes that do not match the manifest abort the update, without a fallback.
                let (code, text) = explain_bundle(&error);
                self.refuse(code, text, now, rng);
            }
        }
    }

    pub(in super::super) fn yaml_answered(
        &mut self,
        id: DeploymentId,
        answer: Answer,
        now: Timestamp,
        rng: &mut dyn RngCore,
    ) {
        let Some(body) = self.artifact_body("fetch a deployment", false, answer, now, rng) else { return };
        let Some(pending) = &mut self.pending else { return };
        let expected = pending.manifest.deployments.iter().find(|deployment| deployment.deployment_id == id);
        let Some(expected) = expected.map(|deployment| deployment.digest.clone()) else { return };
        // DS-09, DS-10: digest over the exact bytes; any mismatch aborts the whole update.
        let actual = Digest::of(&body);
        if actual == expected {
            pending.fetched.insert(actual, body.into());
            self.accept_if_complete(now, rng);
        } else {
            let text = format!("deployment {id} has digest {actual}, the manifest says {expected}");
            self.refuse(Code::DigestMismatch, text, now, rng);
        }
    }

    fn artifact_body(
        &mut self,
        what: &str,
        bundle: bool,
        answer: Answer,
        now: Timestamp,
        rng: &mut dyn RngCore,
    ) -> Option<Vec<u8>> {
        match answer {
            Answer::Response(Response { status: 200, body, .. }) => Some(body),
            other => {
                // DS-18: a 404 says nothing about the desired state. The manifest may have changed: poll again.
                let not_found = matches!(&other, Answer::Response(response) if response.status == 404);
                self.leftover = self.pending.take().map(|pending| UnfinishedFetch {
                    manifest: pending.body_digest,
                    fetched: pending.fetched,
                    without_bundle: pending.without_bundle || bundle,
                });
                let (_, message) = explain_answer(what, &other);
                let code = if not_found {
                    // A missing artifact does not affect the next poll: the usual delay applies.
                    let retry = self.settings.retry;
                    let answer = Answer::Failed { code: Code::ArtifactNotFound, message: String::new() };
                    self.network.desired.failed(&answer, retry, now, rng);
                    Code::ArtifactNotFound
                } else {
                    self.request_failed(LaneName::Desired, what, &other, now, rng)
                };
                let due = self.network.desired.due;
                self.warn(code, None, message.clone());
                self.note_trouble(Topic::Desired, code, message, Some(due), now);
                None
            }
        }
    }
}

fn explain_bundle(error: &BundleError) -> (Code, String) {
    let code = match error {
        BundleError::Digest { .. } => Code::DigestMismatch,
        BundleError::Missing(_) => Code::BundleMissingFile,
        BundleError::Extra(_) | BundleError::Archive(ArchiveError::Duplicate(_)) => Code::BundleExtraFile,
        BundleError::Archive(_) => Code::BundleDamaged,
    };
    let cause = std::error::Error::source(error).map(|cause| format!(": {cause}")).unwrap_or_default();
    (code, format!("{error}{cause}"))
}
