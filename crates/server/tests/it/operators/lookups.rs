//! Names and beginnings of ids are resolved by the server.

use super::packages::{ID, upload};
use super::{Kind, api, deployed, press, problem, refused};
use crate::support::TestServer;
use margrave_api::lookup::{Lookup, LookupKind};

fn ids(found: &Lookup) -> Vec<&str> {
    found.matches.iter().map(|one| one.id.as_str()).collect()
}

#[tokio::test]
async fn resolves_the_beginning_of_an_id_and_a_device_name() {
    let server = TestServer::start().await;
    let api = api(&server);
    press(&server, "press", &Kind::default()).await;
    let deployment = deployed(&server, "press").await;
    for prefix in [&deployment.id[..4], &deployment.id, &deployment.id[..12].to_uppercase()] {
        let found = api.lookup(LookupKind::Deployment, prefix).await.unwrap();
        assert_eq!((ids(&found), found.more), (vec![deployment.id.as_str()], false), "{prefix}");
        assert_eq!(found.matches[0].name.as_deref(), Some(ID));
    }
    let found = api.lookup(LookupKind::Rollout, &deployment.rollout[..8]).await.unwrap();
    assert_eq!(ids(&found), [deployment.rollout.as_str()]);
    for name in ["press", "press/press"] {
        let found = api.lookup(LookupKind::Device, name).await.unwrap();
        assert_eq!((ids(&found), found.matches[0].client.as_deref()), (vec!["press"], Some("press")), "{name}");
    }
    for text in ["zz", "*", "%", &"a".repeat(200)] {
        let found = api.lookup(LookupKind::Deployment, text).await.unwrap();
        assert!(found.matches.is_empty() && found.similar.is_empty(), "{text}");
    }
    let long = "a".repeat(201);
    assert_eq!(refused(api.lookup(LookupKind::Device, &long).await), ("invalid".into(), vec!["name".into()]));
}

#[tokio::test]
async fn suggests_similar_names() {
    let server = TestServer::start().await;
    let api = api(&server);
    upload(&api, "1.0.0").await;
    for name in ["press-01", "press-02", "lathe"] {
        press(&server, name, &Kind::default()).await;
    }
    for (kind, name, expected) in [
        (LookupKind::Device, "prss-01", "press-01"),
        (LookupKind::Device, "plant/prss-01", "press-01"),
        (LookupKind::Client, "lahte", "lathe"),
        (LookupKind::Application, &ID[1..], ID),
    ] {
        let found = api.lookup(kind, name).await.unwrap();
        assert!(found.matches.is_empty());
        assert_eq!(found.similar.first().map(String::as_str), Some(expected), "{name}");
    }
    let missing = problem(api.application(&ID[1..]).await);
    assert_eq!(missing.detail, format!("application `{}` does not exist; did you mean `{ID}`?", &ID[1..]));
    let missing = problem(api.client("lath").await);
    assert_eq!(missing.detail, "client `lath` does not exist; did you mean `lathe`?");
    assert_eq!(problem(api.client("unlike").await).detail, "client `unlike` does not exist");
}
