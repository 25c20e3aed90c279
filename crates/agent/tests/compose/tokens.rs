//! A registry that sends everybody elsewhere for a token, and packages at ordinary addresses.

use crate::bench::{Device, REPOSITORY, USER, Wish, web};
use crate::fake::{Fake, Seen, reply};
use crate::pki::Authority;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use margo::status::State;
use margrave_testbed::Tokens;
use serde_json::json;
use std::sync::{Arc, Mutex};

const ISSUER: &str = "plant tokens";

/// Signs tokens as registries check them.
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

/// A token service that knows one password, which can be changed.
async fn service(password: Arc<Mutex<String>>) -> Tokens {
    let authority = Authority::new("token service");
    let fake = Fake::start_trust(&authority.server()).await;
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

#[tokio::test(flavor = "multi_thread")]
async fn a_registry_that_wants_tokens_is_asked_with_the_password_of_now() {
    let password = Arc::new(Mutex::new(USER.password.to_owned()));
    let mut device = Device::with_tokens(service(Arc::clone(&password)).await).await;
    let image = device.push_image("1").await;
    device.registry.push_compose(REPOSITORY, "1.0.0", &[("compose.yaml", &web(&image))]).await;
    "rotated".clone_into(&mut password.lock().unwrap());
    device.publish_wish(&Wish { revision: "1.0.0", ..Wish::default() });
    device.start();
    let status = device.reaches(State::Failed).await;
    let message = status.components[0].error.clone().unwrap().message;
    assert!(message.contains("refused the username and password"), "{message}");
    std::fs::write(device.path("password"), "rotated").unwrap();
    device.reaches(State::Installed).await;
    assert_eq!(device.containers().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_package_at_an_https_address_is_fetched_from_there() {
    // W-22
    let mut device = Device::new().await;
    let image = device.push_image("1").await;
    let authority = Authority::new("web server");
    let server = Fake::start_trust(&authority.server()).await;
    let layer = margo::archive::pack(&[("any/compose.yaml".to_owned(), web(&image).as_bytes())]);
    server.state().artifacts.insert("/packages/web.tar.gz".to_owned(), layer);
    let ca = device.path("web-ca.pem");
    std::fs::write(&ca, &authority.pem).unwrap();
    let (ca, address) = (ca.display(), server.address);
    device.tables = format!("[[registry]]\nhost = \"{address}\"\nca_file = \"{ca}\"\n");
    let source = format!("          packageLocation: https://{address}/packages/web.tar.gz\n");
    let document = device.document_from(&source, &Wish::default());
    device.publish(&[document]);
    device.start();
    device.reaches(State::Installed).await;
    assert_eq!(device.containers().len(), 1);
}
