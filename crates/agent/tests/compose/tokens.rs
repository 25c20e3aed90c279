//! A registry with a token service, and packages at HTTPS URLs.

use crate::bench::{Device, DocumentOptions, REPOSITORY, USER, web};
use crate::fake::Fake;
use crate::pki::Authority;
use crate::token_service::service;
use margo::status::State;
use std::sync::{Arc, Mutex};

#[tokio::test(flavor = "multi_thread")]
async fn uses_the_current_password_for_registry_tokens() {
    let password = Arc::new(Mutex::new(USER.password.to_owned()));
    let mut device = Device::with_token_service(service("127.0.0.1", Arc::clone(&password)).await).await;
    let image = device.push_image("1").await;
    device.registry.push_compose(REPOSITORY, "1.0.0", &[("compose.yaml", &web(&image))]).await;
    "rotated".clone_into(&mut password.lock().unwrap());
    device.publish_document(&DocumentOptions { revision: "1.0.0", ..DocumentOptions::default() });
    device.start();
    let status = device.reaches(State::Failed).await;
    let message = status.components[0].error.clone().unwrap().message;
    assert!(message.contains("refused the username and password"), "{message}");
    std::fs::write(device.path("password"), "rotated").unwrap();
    device.reaches(State::Installed).await;
    assert_eq!(device.containers().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn fetches_an_older_package_from_an_https_url() {
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
    let document = device.document_from(&source, &DocumentOptions::default());
    device.publish(&[document]);
    device.start();
    device.reaches(State::Installed).await;
    assert_eq!(device.containers().len(), 1);
}
