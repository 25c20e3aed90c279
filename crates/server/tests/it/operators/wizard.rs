//! Deploying step by step, and what is told of a change afterwards, over bare HTTP.

use super::pages::Browser;
use super::*;
use margrave_api::access::CreateToken;
use margrave_api::deployments::{Convergence, UpdateDeployment};
use reqwest::StatusCode;
use reqwest::header::LOCATION;

/// Every answer of the sample application but the password.
pub(super) const ANSWERS: [(&str, &str); 5] =
    [("go", "continue"), ("p:greeting", "hello"), ("p:interval", "60"), ("p:site", "plant"), ("p:legacy", "normal")];

/// Begins to deploy the sample application; gives the address of the draft.
pub(super) async fn begun(browser: &Browser) -> String {
    let form = [("kind", "create"), ("application", packages::ID), ("version", "1.0.0")];
    let begun = browser.post("/deploy", &form).await;
    begun.headers()[LOCATION].to_str().unwrap().trim_end_matches("/version").to_owned()
}

/// Begins to change a deployment; gives the address of the draft.
async fn reconfiguring(browser: &Browser, deployment: &str) -> String {
    let begun = browser.post("/deploy", &[("kind", "reconfigure"), ("deployment", deployment)]).await;
    begun.headers()[LOCATION].to_str().unwrap().trim_end_matches("/answers").to_owned()
}

pub(super) async fn text(browser: &Browser, path: &str) -> String {
    let answer = browser.get(path).await;
    assert_eq!(answer.status(), StatusCode::OK, "{path}");
    // Templates break lines where it suits them.
    answer.text().await.unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
}

fn greeting(word: &str) -> UpdateDeployment {
    let answers = indexmap::IndexMap::from([("greeting".to_owned(), json!(word))]);
    UpdateDeployment { answers, ..UpdateDeployment::default() }
}

#[tokio::test]
async fn a_change_keeps_the_outcome_it_had_when_another_takes_over() {
    let server = TestServer::start().await;
    let (api, browser) = (api(&server), Browser::signed_in(&server).await);
    let client = press(&server, "press", &Kind::default()).await;
    let deployment = deployed(&server, "press").await;
    report(&client, &deployment.id, deployment.target_version, "installed").await;
    let first = deployment.change.clone();
    let page = text(&browser, &format!("/changes/{first}")).await;
    assert!(page.contains("Finished: done everywhere.") && page.contains("1 of 1 done<"), "{page}");

    let second = api.update_deployment(&deployment.id, &greeting("bonjour"), None).await.unwrap();
    finished(&api, &second).await;
    let change = api.change(&first).await.unwrap();
    assert_eq!((change.past.of(Convergence::Converged), change.outcome().total()), (1, 1));
    let page = text(&browser, &format!("/changes/{first}")).await;
    assert!(page.contains("Finished: done everywhere. All of it was changed again since"), "{page}");
    assert!(page.contains("1 of 1 done, 1 changed again since"), "{page}");

    let page = text(&browser, &format!("/changes/{}", second.id)).await;
    assert!(page.contains("<dt>Greeting</dt> <dd>bonjour</dd>"), "what it gives stands in words: {page}");
    let given = api.change(&first).await.unwrap().answers;
    assert_eq!(given["password"], json!("********"), "secrets stay hidden");

    // The second fails, and a third follows.
    let version = api.deployment(&deployment.id).await.unwrap().target_version;
    report(&client, &deployment.id, version, "failed").await;
    finished(&api, &api.update_deployment(&deployment.id, &greeting("salut"), None).await.unwrap()).await;
    let page = text(&browser, &format!("/changes/{}", second.id)).await;
    assert!(page.contains("Finished: 0 done, 1 failed. All of it was changed again since"), "{page}");
    assert!(page.contains("0 of 1 done, 1 failed, 1 changed again since"), "{page}");
    let list = text(&browser, "/changes").await;
    assert!(list.contains("1 of 1 done, 1 changed again since"), "{list}");
}

// CON-02
#[tokio::test]
async fn a_device_that_does_not_fit_is_not_chosen_for_anybody_and_says_why() {
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
    assert!(page.contains("small</a> was not chosen: it cannot take Press vision 1.0.0."), "{page}");
    assert!(page.contains("memory") && page.contains("0 devices chosen so far"), "{page}");
    assert!(!page.contains(" checked"), "{page}");
    // One that fits is chosen, as before.
    let place = begin("large/large").await;
    let page = text(&browser, &place).await;
    assert!(page.contains("1 device chosen so far") && !page.contains("was not chosen"), "{page}");
    assert!(page.contains("2 devices match"), "{page}");
    // One that has it leads to what it has.
    deployed(&server, "large").await;
    let place = begin("large/large").await;
    let page = text(&browser, &place).await;
    assert!(page.contains("has Press vision 1.0.0 already.") && page.contains("Change what it has"), "{page}");
}

// PRM-09
#[tokio::test]
async fn a_secret_can_be_left_out_and_taken_away_and_the_pages_say_so() {
    let server = TestServer::start().await;
    let (api, browser) = (api(&server), Browser::signed_in(&server).await);
    let mut files = packages::files("1.0.0");
    let description = String::from_utf8(files[0].1.clone()).unwrap();
    files[0].1 = description.replace("minLength: 8\n", "allowEmpty: true\n").into_bytes();
    api.upload_application(packages::pack(&files), None, None).await.unwrap();
    press(&server, "press", &Kind::default()).await;

    // Left out.
    let draft = begun(&browser).await;
    browser.post(&format!("{draft}/devices"), &[("go", "continue"), ("device", "press/press")]).await;
    browser.post(&format!("{draft}/answers"), &[ANSWERS.as_slice(), &[("p:password", "")]].concat()).await;
    let review = text(&browser, &format!("{draft}/review")).await;
    assert!(review.contains("<dt>Greeting</dt> <dd>hello</dd>"), "what is asked stands in words: {review}");
    let made = browser.post(&format!("{draft}/review"), &[("key", "k1"), ("reason", "")]).await;
    let change = made.headers()[LOCATION].to_str().unwrap().trim_start_matches("/changes/").to_owned();
    finished(&api, &api.change(&change).await.unwrap()).await;
    let deployment = all_deployments(&api).await.remove(0);
    let page = text(&browser, &format!("/deployments/{}", deployment.id)).await;
    assert!(!page.contains("********"), "nothing is hidden where nothing is: {page}");

    // Given.
    let change = async |form: &[(&str, &str)], key: &str| {
        let draft = reconfiguring(&browser, &deployment.id).await;
        let questions = text(&browser, &format!("{draft}/answers")).await;
        let kept = browser.post(&format!("{draft}/answers"), &[ANSWERS.as_slice(), form].concat()).await;
        assert_eq!(kept.headers()[LOCATION].to_str().unwrap(), format!("{draft}/review"));
        let review = text(&browser, &format!("{draft}/review")).await;
        let made = browser.post(&format!("{draft}/review"), &[("key", key), ("reason", "")]).await;
        let change = made.headers()[LOCATION].to_str().unwrap().trim_start_matches("/changes/").to_owned();
        finished(&api, &api.change(&change).await.unwrap()).await;
        (questions, review)
    };
    let (questions, review) = change(&[("p:password", "s3cret-value")], "k2").await;
    assert!(!questions.contains("Take the kept value away"), "{questions}");
    assert!(review.contains("set, hidden") && !review.contains("s3cret-value"), "{review}");
    let page = text(&browser, &format!("/deployments/{}", deployment.id)).await;
    assert!(page.contains("********") && !page.contains("s3cret-value"), "{page}");

    // Taken away.
    let (questions, review) = change(&[("p:password", ""), ("clear:password", "yes")], "k3").await;
    assert!(
        questions.contains("A value is kept; leave it empty to keep it")
            && questions.contains("Take the kept value away")
    );
    assert!(review.contains("<del>set, hidden</del> <ins>not set</ins>"), "{review}");
    assert_eq!(api.deployment(&deployment.id).await.unwrap().values["password"], json!(""));
    let page = text(&browser, &format!("/deployments/{}", deployment.id)).await;
    assert!(page.contains("<dt>Password</dt> <dd>not set</dd>"), "{page}");
}

#[tokio::test]
async fn a_secret_that_is_needed_cannot_be_taken_away() {
    let server = TestServer::start().await;
    let browser = Browser::signed_in(&server).await;
    press(&server, "press", &Kind::default()).await;
    let deployment = deployed(&server, "press").await;
    let draft = reconfiguring(&browser, &deployment.id).await;
    let questions = text(&browser, &format!("{draft}/answers")).await;
    assert!(questions.contains("A value is kept; leave it empty to keep it"), "{questions}");
    assert!(!questions.contains("Take the kept value away"), "{questions}");
    // Somebody who sends the box all the same changes nothing.
    let form = [ANSWERS.as_slice(), &[("p:password", ""), ("clear:password", "yes")]].concat();
    let kept = browser.post(&format!("{draft}/answers"), &form).await;
    assert_eq!(kept.status(), StatusCode::UNPROCESSABLE_ENTITY);
}

#[tokio::test]
async fn one_device_gets_answers_of_its_own_with_the_same_questions() {
    let server = TestServer::start().await;
    let (api, browser) = (api(&server), Browser::signed_in(&server).await);
    packages::upload(&api, "1.0.0").await;
    for name in ["press-1", "press-2", "press-3"] {
        press(&server, name, &Kind::default()).await;
    }
    let draft = begun(&browser).await;
    browser.post(&format!("{draft}/devices"), &[("go", "all")]).await;
    let common = [&ANSWERS[1..], &[("p:password", "s3cret-value")]].concat();
    let own = async |device: &str| {
        let form = [common.as_slice(), &[("go", "own"), ("own-device", device)]].concat();
        browser.post(&format!("{draft}/answers"), &form).await
    };
    let nobody = own("press-9").await;
    assert_eq!(nobody.status(), StatusCode::UNPROCESSABLE_ENTITY);
    assert!(nobody.text().await.unwrap().contains("is not among the devices that were chosen"));
    let place = own("press-2").await.headers()[LOCATION].to_str().unwrap().to_owned();
    let page = text(&browser, &place).await;
    assert!(
        page.contains("For press-2 alone.") && page.contains("value=\"hello\""),
        "filled with what all get: {page}"
    );
    assert!(!page.contains("s3cret-value"), "{page}");

    let value = [("device", "press-2/press-2")];
    let with = |greeting: &'static str, interval: &'static str| {
        let mut form = [&ANSWERS[1..], &value, &[("p:password", "")]].concat();
        form[0].1 = greeting;
        form[1].1 = interval;
        form
    };
    let wrong = browser.post(&format!("{draft}/own"), &with("bonjour", "5")).await;
    assert_eq!(wrong.status(), StatusCode::UNPROCESSABLE_ENTITY);
    let wrong = wrong.text().await.unwrap();
    assert!(wrong.contains("Interval: ") && wrong.contains("value=\"bonjour\""), "what was typed stays: {wrong}");
    let kept = browser.post(&format!("{draft}/own"), &with("bonjour", "60")).await;
    assert_eq!(kept.headers()[LOCATION].to_str().unwrap(), format!("{draft}/answers#own"));
    let page = text(&browser, &format!("{draft}/answers")).await;
    assert!(
        page.contains("Greeting: bonjour") && !page.contains("Interval: 60"),
        "only what differs is its own: {page}"
    );
    assert!(text(&browser, &place).await.contains("The others get: hello"));

    let answers = [ANSWERS.as_slice(), &[("p:password", "s3cret-value")]].concat();
    browser.post(&format!("{draft}/answers"), &answers).await;
    let review = text(&browser, &format!("{draft}/review")).await;
    assert!(review.contains("3 devices would change.") && review.contains("this makes 2 changes"), "{review}");
    browser.post(&format!("{draft}/review"), &[("key", "k"), ("reason", "")]).await;
    let found = eventually("all three are there", async || {
        let found = all_deployments(&api).await;
        (found.len() == 3).then_some(found)
    })
    .await;
    let of = |name: &str| found.iter().find(|one| one.device == name).unwrap().values["greeting"].clone();
    assert_eq!((of("press-1"), of("press-2"), of("press-3")), (json!("hello"), json!("bonjour"), json!("hello")));

    // Made equal again, nothing is its own.
    let draft = begun(&browser).await;
    press(&server, "press-4", &Kind::default()).await;
    press(&server, "press-5", &Kind::default()).await;
    let two = [("go", "continue"), ("device", "press-4/press-4"), ("device", "press-5/press-5")];
    browser.post(&format!("{draft}/devices"), &two).await;
    browser
        .post(
            &format!("{draft}/answers"),
            &[common.as_slice(), &[("go", "own"), ("own-device", "press-4/press-4")]].concat(),
        )
        .await;
    for (greeting, has) in [("bonjour", true), ("hello", false)] {
        let mut form = with(greeting, "60");
        form.iter_mut().filter(|(name, _)| *name == "device").for_each(|field| field.1 = "press-4/press-4");
        browser.post(&format!("{draft}/own"), &form).await;
        let page = text(&browser, &format!("{draft}/answers")).await;
        assert_eq!(page.contains("Greeting: bonjour"), has, "{page}");
    }
}

#[tokio::test]
async fn what_was_begun_is_found_again_by_whoever_began_it() {
    let server = TestServer::start().await;
    let (api, browser) = (api(&server), Browser::signed_in(&server).await);
    packages::upload(&api, "1.0.0").await;
    assert!(!text(&browser, "/catalog").await.contains("Begun and not finished"));
    let draft = begun(&browser).await;
    let page = text(&browser, "/catalog").await;
    assert!(page.contains(&format!("href=\"{draft}/version\">Go on: Deploy Press vision</a>")), "{page}");
    let body = CreateToken { name: "other".to_owned(), valid_for_seconds: None, reason: None };
    let other = api.create_token(&body).await.unwrap();
    let mut somebody = Browser::new(&server);
    somebody.sign_in(&[("token", other.secret.as_deref().unwrap())]).await;
    assert!(!text(&somebody, "/catalog").await.contains("Begun and not finished"), "drafts are private");
    browser.post(&format!("{draft}/drop"), &[]).await;
    assert!(!text(&browser, "/catalog").await.contains("Begun and not finished"));
}

/// The first button of a form is what Enter in a field presses.
#[tokio::test]
async fn enter_in_a_field_goes_on_and_drops_nothing() {
    let server = TestServer::start().await;
    let (api, browser) = (api(&server), Browser::signed_in(&server).await);
    packages::upload(&api, "1.0.0").await;
    press(&server, "press-1", &Kind::default()).await;
    let draft = begun(&browser).await;
    browser.post(&format!("{draft}/devices"), &[("go", "continue"), ("device", "press-1/press-1")]).await;
    browser.post(&format!("{draft}/answers"), &[ANSWERS.as_slice(), &[("p:password", "s3cret-value")]].concat()).await;
    for (step, goes) in [
        ("answers", "value=\"continue\""),
        ("review", "value=\"deploy\""),
        ("version", ">Continue<"),
        ("devices", "value=\"filter\""),
    ] {
        let page = text(&browser, &format!("{draft}/{step}")).await;
        let main = page.split_once("<h1").expect("the page itself").1;
        // One that belongs to another form is none of this one; one that names this form is, wherever it stands.
        let first = main.split("<button").skip(1).find(|button| !button.contains("form=\"drop\"")).expect("a button");
        let first = first.split_once("</button>").unwrap().0.to_owned() + "<";
        assert!(first.contains(goes), "{step}: {first}");
    }
}

#[tokio::test]
async fn of_two_who_answer_for_one_deployment_the_second_is_told_before_anything_is_undone() {
    let server = TestServer::start().await;
    let (api, browser) = (api(&server), Browser::signed_in(&server).await);
    press(&server, "press", &Kind::default()).await;
    let deployment = deployed(&server, "press").await;
    let draft = reconfiguring(&browser, &deployment.id).await;
    let questions = text(&browser, &format!("{draft}/answers")).await;
    assert!(questions.contains("name=\"seen\" value=\"1\""), "{questions}");
    finished(&api, &api.update_deployment(&deployment.id, &greeting("bonjour"), None).await.unwrap()).await;
    // Only the interval was touched; the greeting is what it was when the page was opened.
    let mut form = [ANSWERS.as_slice(), &[("p:password", "")]].concat();
    form[2].1 = "90";
    let told = browser.post(&format!("{draft}/answers"), &[form.as_slice(), &[("seen", "1")]].concat()).await;
    assert_eq!(told.status(), StatusCode::UNPROCESSABLE_ENTITY);
    let told = told.text().await.unwrap();
    assert!(told.contains("Somebody else changed this deployment") && told.contains("Now: bonjour"), "{told}");
    assert!(told.contains("value=\"90\""), "what was typed stays: {told}");
    form[1].1 = "bonjour";
    let kept = browser.post(&format!("{draft}/answers"), &[form.as_slice(), &[("seen", "2")]].concat()).await;
    assert_eq!(kept.headers()[LOCATION].to_str().unwrap(), format!("{draft}/review"));
    let made = browser.post(&format!("{draft}/review"), &[("key", "k"), ("seen", "2"), ("reason", "")]).await;
    let change = made.headers()[LOCATION].to_str().unwrap().trim_start_matches("/changes/").to_owned();
    finished(&api, &api.change(&change).await.unwrap()).await;
    let page = text(&browser, &format!("/deployments/{}", deployment.id)).await;
    assert!(
        page.contains("Greeting: <del>hello</del> <ins>bonjour</ins>"),
        "each revision says what it changed: {page}"
    );
    assert!(page.contains("Interval: <del>60</del> <ins>90</ins>"), "{page}");
}

#[tokio::test]
async fn whoever_names_a_device_among_the_answers_and_goes_on_means_that_device() {
    let server = TestServer::start().await;
    let (api, browser) = (api(&server), Browser::signed_in(&server).await);
    packages::upload(&api, "1.0.0").await;
    press(&server, "press-1", &Kind::default()).await;
    press(&server, "press-2", &Kind::default()).await;
    let draft = begun(&browser).await;
    browser.post(&format!("{draft}/devices"), &[("go", "all")]).await;
    let form = [ANSWERS.as_slice(), &[("p:password", "s3cret-value")]].concat();
    let named =
        browser.post(&format!("{draft}/answers"), &[form.as_slice(), &[("own-device", "press-2")]].concat()).await;
    assert!(named.headers()[LOCATION].to_str().unwrap().starts_with(&format!("{draft}/own?device=")));
    let wrong =
        browser.post(&format!("{draft}/answers"), &[form.as_slice(), &[("own-device", "press-9")]].concat()).await;
    assert_eq!(wrong.status(), StatusCode::UNPROCESSABLE_ENTITY, "a name that is nobody's is not passed over");
}

#[tokio::test]
async fn what_is_deployed_again_begins_with_the_answers_it_had() {
    let server = TestServer::start().await;
    let (api, browser) = (api(&server), Browser::signed_in(&server).await);
    let client = press(&server, "press", &Kind::default()).await;
    let deployment = deployed(&server, "press").await;
    finished(&api, &api.update_deployment(&deployment.id, &greeting("bonjour"), None).await.unwrap()).await;
    finished(&api, &api.remove_deployment(&deployment.id, None, None).await.unwrap()).await;
    report(&client, &deployment.id, 4, "removed").await;
    let page = text(&browser, &format!("/deployments/{}", deployment.id)).await;
    assert!(page.contains("Deploy it again"), "{page}");
    let form = [
        ("kind", "create"),
        ("application", packages::ID),
        ("version", "1.0.0"),
        ("device", "press/press"),
        ("like", deployment.id.as_str()),
    ];
    let begun = browser.post("/deploy", &form).await;
    let draft = begun.headers()[LOCATION].to_str().unwrap().trim_end_matches("/devices").to_owned();
    let questions = text(&browser, &format!("{draft}/answers")).await;
    assert!(questions.contains("value=\"bonjour\"") && questions.contains("A value is kept"), "{questions}");
    assert!(!questions.contains("s3cret-value"), "{questions}");
}
