//! The deploy wizard and the page of a rollout, over plain HTTP.

use super::pages::Browser;
use super::selected_devices::selected_count;
use super::*;
use margrave_api::access::CreateToken;
use margrave_api::deployments::{DeploymentState, UpdateDeployment};
use reqwest::StatusCode;
use reqwest::header::LOCATION;

/// Every value of the sample application except the password.
pub(super) const ANSWERS: [(&str, &str); 5] =
    [("go", "continue"), ("p:greeting", "hello"), ("p:interval", "60"), ("p:site", "plant"), ("p:legacy", "normal")];

/// Starts to deploy the sample application; returns the address of the draft.
pub(super) async fn started(browser: &Browser) -> String {
    let form = [("kind", "create"), ("application", packages::ID), ("version", "1.0.0")];
    let started = browser.post("/deploy", &form).await;
    started.headers()[LOCATION].to_str().unwrap().trim_end_matches("/version").to_owned()
}

/// Starts to change a deployment; returns the address of the draft.
async fn reconfiguring(browser: &Browser, deployment: &str) -> String {
    let started = browser.post("/deploy", &[("kind", "reconfigure"), ("deployment", deployment)]).await;
    started.headers()[LOCATION].to_str().unwrap().trim_end_matches("/configuration").to_owned()
}

pub(super) async fn text(browser: &Browser, path: &str) -> String {
    let answer = browser.get(path).await;
    assert_eq!(answer.status(), StatusCode::OK, "{path}");
    // Templates contain line breaks.
    answer.text().await.unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
}

fn greeting(word: &str) -> UpdateDeployment {
    let answers = indexmap::IndexMap::from([("greeting".to_owned(), json!(word))]);
    UpdateDeployment { values: answers, ..UpdateDeployment::default() }
}

#[tokio::test]
async fn a_rollout_keeps_its_outcome_when_another_takes_over() {
    let server = TestServer::start().await;
    let (api, browser) = (api(&server), Browser::signed_in(&server).await);
    let client = press(&server, "press", &Kind::default()).await;
    let deployment = deployed(&server, "press").await;
    report(&client, &deployment.id, deployment.target_version, "installed").await;
    let first = deployment.rollout.clone();
    let page = text(&browser, &format!("/rollouts/{first}")).await;
    assert!(page.contains("role=\"status\" data-state=\"completed\"") && page.contains("<i></i>1 of 1 "), "{page}");

    let second = api.update_deployment(&deployment.id, &greeting("bonjour"), None).await.unwrap();
    finished(&api, &second).await;
    let rollout = api.rollout(&first).await.unwrap();
    assert_eq!((rollout.past.of(DeploymentState::UpToDate), rollout.outcome().total()), (1, 1));
    let page = text(&browser, &format!("/rollouts/{first}")).await;
    assert!(page.contains("role=\"status\" data-state=\"completed\""), "{page}");
    assert!(page.contains("<i></i>1 of 1 ") && page.contains("</span><span>1 changed again since"), "{page}");

    let page = text(&browser, &format!("/rollouts/{}", second.id)).await;
    assert!(page.contains("<dt>Greeting</dt> <dd>bonjour</dd>"), "the values are shown in words: {page}");
    let given = api.rollout(&first).await.unwrap().values;
    assert_eq!(given["password"], json!("********"), "secrets stay hidden");

    // The second fails, and a third follows.
    let version = api.deployment(&deployment.id).await.unwrap().target_version;
    report(&client, &deployment.id, version, "failed").await;
    finished(&api, &api.update_deployment(&deployment.id, &greeting("salut"), None).await.unwrap()).await;
    let page = text(&browser, &format!("/rollouts/{}", second.id)).await;
    assert!(page.contains("role=\"status\" data-state=\"completed-with-failures\""), "{page}");
    assert!(
        page.contains("data-state=\"failed\"><i></i>1 ") && page.contains("</span><span>1 changed again since"),
        "{page}"
    );
    let list = text(&browser, "/rollouts").await;
    assert!(list.contains("<i></i>1 of 1 ") && list.contains("</span><span>1 changed again since"), "{list}");
}

// CON-02
#[tokio::test]
async fn does_not_select_an_incompatible_device_and_says_why() {
    let server = TestServer::start().await;
    let (api, browser) = (api(&server), Browser::signed_in(&server).await);
    packages::upload(&api, "1.0.0").await;
    press(&server, "small", &Kind { memory: "512Mi", types: &["compose"], ..Kind::default() }).await;
    press(&server, "large", &Kind::default()).await;
    let begin = async |device: &str| {
        let form = [("kind", "create"), ("application", packages::ID), ("version", "1.0.0"), ("device", device)];
        let answer = browser.post("/deploy", &form).await;
        answer.headers()[LOCATION].to_str().unwrap().to_owned()
    };
    let place = begin("small/small").await;
    let page = text(&browser, &place).await;
    assert!(page.contains("data-reason=\"incompatible\"") && page.contains("small</a>"), "{page}");
    assert!(page.contains("data-reason=\"memory") && page.contains(&selected_count(0)), "{page}");
    assert!(!page.contains(" checked"), "{page}");
    // A compatible one is selected, as before.
    let place = begin("large/large").await;
    let page = text(&browser, &place).await;
    assert!(page.contains(&selected_count(1)) && !page.contains("data-reason=\"incompatible\""), "{page}");
    assert!(page.matches("name=\"shown\"").count() == 2, "{page}");
    // A device that has it links to its deployment.
    deployed(&server, "large").await;
    let place = begin("large/large").await;
    let page = text(&browser, &place).await;
    assert!(page.contains("data-reason=\"already-deployed\"") && page.contains("href=\"/deployments/"), "{page}");
}

// PRM-09
#[tokio::test]
async fn a_secret_can_be_omitted_and_removed() {
    let server = TestServer::start().await;
    let (api, browser) = (api(&server), Browser::signed_in(&server).await);
    let mut files = packages::files("1.0.0");
    let description = String::from_utf8(files[0].1.clone()).unwrap();
    files[0].1 = description.replace("minLength: 8\n", "allowEmpty: true\n").into_bytes();
    api.upload_application(packages::pack(&files), None, None).await.unwrap();
    press(&server, "press", &Kind::default()).await;

    // Omitted.
    let draft = started(&browser).await;
    browser.post(&format!("{draft}/devices"), &[("go", "continue"), ("device", "press/press")]).await;
    browser.post(&format!("{draft}/configuration"), &[ANSWERS.as_slice(), &[("p:password", "")]].concat()).await;
    let review = text(&browser, &format!("{draft}/review")).await;
    assert!(review.contains("<dt>Greeting</dt> <dd>hello</dd>"), "the parameters are shown in words: {review}");
    let made = browser.post(&format!("{draft}/review"), &[("key", "k1"), ("comment", "")]).await;
    let rollout = made.headers()[LOCATION].to_str().unwrap().trim_start_matches("/rollouts/").to_owned();
    finished(&api, &api.rollout(&rollout).await.unwrap()).await;
    let deployment = all_deployments(&api).await.remove(0);
    let page = text(&browser, &format!("/deployments/{}", deployment.id)).await;
    assert!(!page.contains("********"), "nothing is masked where there is no value: {page}");

    // Set.
    let rollout = async |form: &[(&str, &str)], key: &str| {
        let draft = reconfiguring(&browser, &deployment.id).await;
        let questions = text(&browser, &format!("{draft}/configuration")).await;
        let kept = browser.post(&format!("{draft}/configuration"), &[ANSWERS.as_slice(), form].concat()).await;
        assert_eq!(kept.headers()[LOCATION].to_str().unwrap(), format!("{draft}/review"));
        let review = text(&browser, &format!("{draft}/review")).await;
        let made = browser.post(&format!("{draft}/review"), &[("key", key), ("comment", "")]).await;
        let rollout = made.headers()[LOCATION].to_str().unwrap().trim_start_matches("/rollouts/").to_owned();
        finished(&api, &api.rollout(&rollout).await.unwrap()).await;
        (questions, review)
    };
    let (questions, review) = rollout(&[("p:password", "s3cret-value")], "k2").await;
    assert!(!questions.contains("name=\"clear:password\""), "{questions}");
    assert!(review.contains("set, hidden") && !review.contains("s3cret-value"), "{review}");
    let page = text(&browser, &format!("/deployments/{}", deployment.id)).await;
    assert!(page.contains("********") && !page.contains("s3cret-value"), "{page}");

    // Removed.
    let (questions, review) = rollout(&[("p:password", ""), ("clear:password", "yes")], "k3").await;
    assert!(questions.contains("name=\"clear:password\""), "{questions}");
    assert!(review.contains("<del>set, hidden</del> <ins>not set</ins>"), "{review}");
    assert_eq!(api.deployment(&deployment.id).await.unwrap().values["password"], json!(""));
    let page = text(&browser, &format!("/deployments/{}", deployment.id)).await;
    assert!(page.contains("<dt>Password</dt> <dd>not set</dd>"), "{page}");
}

#[tokio::test]
async fn a_required_secret_cannot_be_removed() {
    let server = TestServer::start().await;
    let browser = Browser::signed_in(&server).await;
    press(&server, "press", &Kind::default()).await;
    let deployment = deployed(&server, "press").await;
    let draft = reconfiguring(&browser, &deployment.id).await;
    let questions = text(&browser, &format!("{draft}/configuration")).await;
    assert!(questions.contains("A value is saved; leave empty to keep it"), "{questions}");
    assert!(!questions.contains("name=\"clear:password\""), "{questions}");
    // Sending the field anyway changes nothing.
    let form = [ANSWERS.as_slice(), &[("p:password", ""), ("clear:password", "yes")]].concat();
    let kept = browser.post(&format!("{draft}/configuration"), &form).await;
    assert_eq!(kept.status(), StatusCode::UNPROCESSABLE_ENTITY);
}

#[tokio::test]
async fn overrides_values_for_one_device() {
    let server = TestServer::start().await;
    let (api, browser) = (api(&server), Browser::signed_in(&server).await);
    packages::upload(&api, "1.0.0").await;
    for name in ["press-1", "press-2", "press-3"] {
        press(&server, name, &Kind::default()).await;
    }
    let draft = started(&browser).await;
    browser.post(&format!("{draft}/devices"), &[("go", "all")]).await;
    let common = [&ANSWERS[1..], &[("p:password", "s3cret-value")]].concat();
    let own = async |device: &str| {
        let form = [common.as_slice(), &[("go", "override"), ("own-device", device)]].concat();
        browser.post(&format!("{draft}/configuration"), &form).await
    };
    let absent = own("press-9").await;
    assert_eq!(absent.status(), StatusCode::UNPROCESSABLE_ENTITY);
    assert!(absent.text().await.unwrap().contains("role=\"alert\" tabindex=\"-1\" data-reason=\"not-selected\""));
    let place = own("press-2").await.headers()[LOCATION].to_str().unwrap().to_owned();
    let page = text(&browser, &place).await;
    assert!(
        page.contains("data-reason=\"override\"") && page.contains("value=\"hello\""),
        "filled with the common values: {page}"
    );
    assert!(!page.contains("s3cret-value"), "{page}");

    let value = [("device", "press-2/press-2")];
    let with = |greeting: &'static str, interval: &'static str| {
        let mut form = [&ANSWERS[1..], &value, &[("p:password", "")]].concat();
        form[0].1 = greeting;
        form[1].1 = interval;
        form
    };
    let wrong = browser.post(&format!("{draft}/override"), &with("bonjour", "5")).await;
    assert_eq!(wrong.status(), StatusCode::UNPROCESSABLE_ENTITY);
    let wrong = wrong.text().await.unwrap();
    assert!(
        wrong.contains("role=\"alert\" tabindex=\"-1\" data-reason=\"invalid\"") && wrong.contains("value=\"bonjour\""),
        "what was typed stays: {wrong}"
    );
    let kept = browser.post(&format!("{draft}/override"), &with("bonjour", "60")).await;
    assert_eq!(kept.headers()[LOCATION].to_str().unwrap(), format!("{draft}/configuration#own"));
    let page = text(&browser, &format!("{draft}/configuration")).await;
    assert!(
        page.contains("Greeting: bonjour") && !page.contains("Interval: 60"),
        "only different values are overrides: {page}"
    );
    assert!(text(&browser, &place).await.contains("data-reason=\"current-value\""));

    let answers = [ANSWERS.as_slice(), &[("p:password", "s3cret-value")]].concat();
    browser.post(&format!("{draft}/configuration"), &answers).await;
    let review = text(&browser, &format!("{draft}/review")).await;
    assert!(review.contains("data-reason=\"update\" data-count=\"3\" data-rollouts=\"2\""), "{review}");
    browser.post(&format!("{draft}/review"), &[("key", "k"), ("comment", "")]).await;
    let found = eventually("all three exist", async || {
        let found = all_deployments(&api).await;
        (found.len() == 3).then_some(found)
    })
    .await;
    let of = |name: &str| found.iter().find(|one| one.device == name).unwrap().values["greeting"].clone();
    assert_eq!((of("press-1"), of("press-2"), of("press-3")), (json!("hello"), json!("bonjour"), json!("hello")));

    // Equal to the common value again, it is no override.
    let draft = started(&browser).await;
    press(&server, "press-4", &Kind::default()).await;
    press(&server, "press-5", &Kind::default()).await;
    let two = [("go", "continue"), ("device", "press-4/press-4"), ("device", "press-5/press-5")];
    browser.post(&format!("{draft}/devices"), &two).await;
    browser
        .post(
            &format!("{draft}/configuration"),
            &[common.as_slice(), &[("go", "override"), ("own-device", "press-4/press-4")]].concat(),
        )
        .await;
    for (greeting, has) in [("bonjour", true), ("hello", false)] {
        let mut form = with(greeting, "60");
        form.iter_mut().filter(|(name, _)| *name == "device").for_each(|field| field.1 = "press-4/press-4");
        browser.post(&format!("{draft}/override"), &form).await;
        let page = text(&browser, &format!("{draft}/configuration")).await;
        assert_eq!(page.contains("Greeting: bonjour"), has, "{page}");
    }
}

#[tokio::test]
async fn lists_drafts_only_for_their_owner() {
    let server = TestServer::start().await;
    let (api, browser) = (api(&server), Browser::signed_in(&server).await);
    packages::upload(&api, "1.0.0").await;
    assert!(!text(&browser, "/catalog").await.contains("data-reason=\"drafts\""));
    let draft = started(&browser).await;
    let page = text(&browser, "/catalog").await;
    assert!(page.contains("data-reason=\"drafts\"") && page.contains(&format!("href=\"{draft}/version\"")), "{page}");
    let body = CreateToken { name: "other".to_owned(), valid_for_seconds: None, comment: None };
    let other = api.create_token(&body).await.unwrap();
    let mut other_browser = Browser::new(&server);
    other_browser.sign_in(&[("token", other.secret.as_deref().unwrap())]).await;
    assert!(!text(&other_browser, "/catalog").await.contains("data-reason=\"drafts\""), "drafts are private");
    browser.post(&format!("{draft}/discard"), &[]).await;
    assert!(!text(&browser, "/catalog").await.contains("data-reason=\"drafts\""));
}

/// The first button of a form is what Enter in a field presses.
#[tokio::test]
async fn enter_continues_and_never_discards_the_draft() {
    let server = TestServer::start().await;
    let (api, browser) = (api(&server), Browser::signed_in(&server).await);
    packages::upload(&api, "1.0.0").await;
    press(&server, "press-1", &Kind::default()).await;
    let draft = started(&browser).await;
    browser.post(&format!("{draft}/devices"), &[("go", "continue"), ("device", "press-1/press-1")]).await;
    browser
        .post(&format!("{draft}/configuration"), &[ANSWERS.as_slice(), &[("p:password", "s3cret-value")]].concat())
        .await;
    for (step, goes) in [
        ("configuration", "value=\"continue\""),
        ("review", "value=\"deploy\""),
        ("version", "data-action=\"continue\""),
        ("devices", "value=\"filter\""),
    ] {
        let page = text(&browser, &format!("{draft}/{step}")).await;
        let main = page.split_once("<h1").expect("the page itself").1;
        // A field of another form does not count; one that names this form does, wherever it is.
        let first = main.split("<button").skip(1).find(|button| !button.contains("form=\"drop\"")).expect("a button");
        let first = first.split_once("</button>").unwrap().0.to_owned() + "<";
        assert!(first.contains(goes), "{step}: {first}");
    }
}

#[tokio::test]
async fn warns_the_second_of_two_operators_before_overwriting_values() {
    let server = TestServer::start().await;
    let (api, browser) = (api(&server), Browser::signed_in(&server).await);
    press(&server, "press", &Kind::default()).await;
    let deployment = deployed(&server, "press").await;
    let draft = reconfiguring(&browser, &deployment.id).await;
    let questions = text(&browser, &format!("{draft}/configuration")).await;
    assert!(questions.contains("name=\"seen\" value=\"1\""), "{questions}");
    finished(&api, &api.update_deployment(&deployment.id, &greeting("bonjour"), None).await.unwrap()).await;
    // Only the interval was changed; the greeting has the value from when the page was opened.
    let mut form = [ANSWERS.as_slice(), &[("p:password", "")]].concat();
    form[2].1 = "90";
    let told = browser.post(&format!("{draft}/configuration"), &[form.as_slice(), &[("seen", "1")]].concat()).await;
    assert_eq!(told.status(), StatusCode::UNPROCESSABLE_ENTITY);
    let told = told.text().await.unwrap();
    assert!(
        told.contains("href=\"#configuration\"")
            && told.contains("data-reason=\"current-value\"")
            && told.contains("bonjour</p>"),
        "{told}"
    );
    assert!(told.contains("value=\"90\""), "what was typed stays: {told}");
    form[1].1 = "bonjour";
    let kept = browser.post(&format!("{draft}/configuration"), &[form.as_slice(), &[("seen", "2")]].concat()).await;
    assert_eq!(kept.headers()[LOCATION].to_str().unwrap(), format!("{draft}/review"));
    let made = browser.post(&format!("{draft}/review"), &[("key", "k"), ("seen", "2"), ("comment", "")]).await;
    let rollout = made.headers()[LOCATION].to_str().unwrap().trim_start_matches("/rollouts/").to_owned();
    finished(&api, &api.rollout(&rollout).await.unwrap()).await;
    let page = text(&browser, &format!("/deployments/{}", deployment.id)).await;
    assert!(page.contains("Greeting: <del>hello</del> <ins>bonjour</ins>"), "each revision shows its changes: {page}");
    assert!(page.contains("Interval: <del>60</del> <ins>90</ins>"), "{page}");
}

#[tokio::test]
async fn continuing_with_a_typed_device_name_adds_an_override() {
    let server = TestServer::start().await;
    let (api, browser) = (api(&server), Browser::signed_in(&server).await);
    packages::upload(&api, "1.0.0").await;
    press(&server, "press-1", &Kind::default()).await;
    press(&server, "press-2", &Kind::default()).await;
    let draft = started(&browser).await;
    browser.post(&format!("{draft}/devices"), &[("go", "all")]).await;
    let form = [ANSWERS.as_slice(), &[("p:password", "s3cret-value")]].concat();
    let named = browser
        .post(&format!("{draft}/configuration"), &[form.as_slice(), &[("own-device", "press-2")]].concat())
        .await;
    assert!(named.headers()[LOCATION].to_str().unwrap().starts_with(&format!("{draft}/override?device=")));
    let wrong = browser
        .post(&format!("{draft}/configuration"), &[form.as_slice(), &[("own-device", "press-9")]].concat())
        .await;
    assert_eq!(wrong.status(), StatusCode::UNPROCESSABLE_ENTITY, "an unknown name is not ignored");
}

#[tokio::test]
async fn redeploying_starts_with_the_previous_values() {
    let server = TestServer::start().await;
    let (api, browser) = (api(&server), Browser::signed_in(&server).await);
    let client = press(&server, "press", &Kind::default()).await;
    let deployment = deployed(&server, "press").await;
    finished(&api, &api.update_deployment(&deployment.id, &greeting("bonjour"), None).await.unwrap()).await;
    finished(&api, &api.remove_deployment(&deployment.id, None, None).await.unwrap()).await;
    report(&client, &deployment.id, 4, "removed").await;
    let page = text(&browser, &format!("/deployments/{}", deployment.id)).await;
    assert!(page.contains("data-action=\"deploy\""), "{page}");
    let form = [
        ("kind", "create"),
        ("application", packages::ID),
        ("version", "1.0.0"),
        ("device", "press/press"),
        ("like", deployment.id.as_str()),
    ];
    let started = browser.post("/deploy", &form).await;
    let draft = started.headers()[LOCATION].to_str().unwrap().trim_end_matches("/devices").to_owned();
    let questions = text(&browser, &format!("{draft}/configuration")).await;
    assert!(questions.contains("value=\"bonjour\"") && questions.contains("A value is saved"), "{questions}");
    assert!(!questions.contains("s3cret-value"), "{questions}");
}
