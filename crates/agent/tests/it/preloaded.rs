//! Creates valid and forged preloaded desired states.

use crate::pki::Leaf;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use margo::Digest;
use margrave_core::preload::{Artifact, HEAD, Head, Image, KIND, Statement, entry, signed_bytes};
use margrave_core::publish::{Publication, ServedDeployment};
use rcgen::SigningKey as _;
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;

/// ECDSA with P-256 and SHA-256, as TLS numbers it.
const SCHEME: u16 = 0x0403;

/// An unsigned preload: its statement and its contents.
pub(crate) struct PreloadBuilder {
    pub(crate) statement: Statement,
    pub(crate) contents: Vec<Vec<u8>>,
}

impl PreloadBuilder {
    pub(crate) fn new(client: &str, publication: &Publication, deployments: &[ServedDeployment]) -> Self {
        let statement = Statement {
            kind: KIND.to_owned(),
            client: client.to_owned(),
            issued_at: jiff::Timestamp::UNIX_EPOCH.to_string(),
            manifest: publication.digest.clone(),
            etag: publication.digest.etag(),
            artifacts: Vec::new(),
            images: Vec::new(),
        };
        let mut contents = vec![publication.body.clone()];
        contents.extend(deployments.iter().map(|served| served.yaml.clone()));
        Self { statement, contents }
    }

    pub(crate) fn issued(mut self, at: &str) -> Self {
        at.clone_into(&mut self.statement.issued_at);
        self
    }

    pub(crate) fn artifact(mut self, reference: &str, layer: &[u8]) -> Self {
        self.statement.artifacts.push(Artifact { reference: reference.to_owned(), layer: Digest::of(layer) });
        self.contents.push(layer.to_vec());
        self
    }

    /// Configuration first, then layers.
    pub(crate) fn image(mut self, name: &str, blobs: &[Vec<u8>]) -> Self {
        let (config, layers) = blobs.split_first().unwrap();
        let layers = layers.iter().map(|layer| Digest::of(layer)).collect();
        self.statement.images.push(Image { name: name.to_owned(), config: Digest::of(config), layers });
        self.contents.extend_from_slice(blobs);
        self
    }

    pub(crate) fn signed(self, by: &Leaf) -> SignedPreload {
        let statement = serde_json::to_string(&self.statement).unwrap();
        let key = rcgen::KeyPair::from_pem(&by.key).unwrap();
        let signature = STANDARD.encode(key.sign(&signed_bytes(&statement)).unwrap());
        let chain = CertificateDer::pem_slice_iter(by.certificate.as_bytes());
        let certificates = chain.map(|certificate| STANDARD.encode(certificate.unwrap())).collect();
        SignedPreload { head: Head { statement, scheme: SCHEME, signature, certificates }, contents: self.contents }
    }
}

/// The parts of a signed preload, for tampering.
pub(crate) struct SignedPreload {
    pub(crate) head: Head,
    pub(crate) contents: Vec<Vec<u8>>,
}

impl SignedPreload {
    pub(crate) fn file(&self) -> Vec<u8> {
        let digests: Vec<Digest> = self.contents.iter().map(|bytes| Digest::of(bytes)).collect();
        self.file_under(&digests)
    }

    /// With contents under the given names.
    pub(crate) fn file_under(&self, digests: &[Digest]) -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        let mut add = |name: &str, bytes: &[u8]| {
            let mut header = tar::Header::new_gnu();
            header.set_size(bytes.len() as u64);
            header.set_mode(0o600);
            builder.append_data(&mut header, name, bytes).unwrap();
        };
        add(HEAD, &serde_json::to_vec(&self.head).unwrap());
        for (bytes, digest) in self.contents.iter().zip(digests) {
            add(&entry(digest), bytes);
        }
        builder.into_inner().unwrap()
    }
}
