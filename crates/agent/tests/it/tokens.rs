//! A token service for a registry, with one password.

use crate::bench::USER;
use crate::fake::{Fake, Seen, reply};
use crate::pki::Authority;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use margrave_testbed::Tokens;
use serde_json::json;
use std::sync::{Arc, Mutex};

const ISSUER: &str = "plant tokens";

/// Signs tokens for registries.
struct Signer {
    key: EcdsaKeyPair,
    certificate: Vec<u8>,
}

impl Signer {
    #[expect(clippy::disallowed_methods, reason = "the registry compares with the clock of this machine")]
    fn token(&self, repository: &str, actions: &str) -> String {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
        let header = json!({ "typ": "JWT", "alg": "ES256", "x5c": [STANDARD.encode(&self.certificate)] });
        let actions: Vec<&str> = actions.split(',').collect();
        let claims = json!({
            "iss": ISSUER, "sub": USER.name, "aud": "plant", "jti": "1", "iat": now, "nbf": now - 60, "exp": now + 600,
            "access": [{ "type": "repository", "name": repository, "actions": actions }],
        });
        let part = |value: serde_json::Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let text = format!("{}.{}", part(header), part(claims));
        let signature = self.key.sign(&SystemRandom::new(), text.as_bytes()).unwrap();
        format!("{text}.{}", URL_SAFE_NO_PAD.encode(signature.as_ref()))
    }
}

/// On an address of this machine; the password can be changed.
pub(crate) async fn service(address: &str, password: Arc<Mutex<String>>) -> Tokens {
    let authority = Authority::new("token service");
    let names = vec![rcgen::SanType::IpAddress(address.parse().unwrap())];
    let leaf = authority.svid_with("spiffe://plant/tokens", |leaf| leaf.subject_alt_names = names);
    let fake = Fake::start_trust_on(address, &leaf).await;
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = rcgen::CertificateParams::default().self_signed(&key).unwrap();
    let signer = Signer {
        key: EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &key.serialize_der()).unwrap(),
        certificate: certificate.der().to_vec(),
    };
    let realm = format!("{}token", fake.url());
    fake.twist(move |seen: &Seen| {
        let right = STANDARD.encode(format!("{}:{}", USER.name, password.lock().unwrap()));
        let said = seen.headers.get("authorization").and_then(|value| value.to_str().ok()).unwrap_or_default();
        if said != format!("Basic {right}") {
            return Some(reply(401, ""));
        }
        let query = url::form_urlencoded::parse(seen.query.as_bytes());
        let scope = query.into_iter().find(|(name, _)| name == "scope").map(|(_, value)| value.into_owned());
        let scope = scope.unwrap_or_default();
        let mut parts = scope.splitn(3, ':').skip(1);
        let token = signer.token(parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        Some(reply(200, json!({ "token": token }).to_string()))
    });
    Tokens { realm, issuer: ISSUER.to_owned(), certificate: certificate.pem(), ca: authority.pem }
}
