//! Packages into the catalog and out of it.

use super::packages::{ID, description, files, layout, pack, package, upload};
use super::pages::Browser;
use super::{Kind, api, deployed, press, problem, refused};
use crate::support::TestServer;
use margrave_api::client::PageQuery;

#[tokio::test]
async fn a_folder_becomes_an_application_version() {
    let server = TestServer::start().await;
    let api = api(&server);
    let imported = upload(&api, "1.0.0").await;
    assert!(imported.added);
    let version = imported.application;
    assert_eq!(
        (version.id.as_str(), version.vendor.as_str(), version.source.as_str()),
        (ID, "Example Vision", "a folder")
    );
    let profiles: Vec<_> =
        version.profiles.iter().map(|profile| (profile.id.as_str(), profile.profile_type.as_str())).collect();
    assert_eq!(profiles, [("small", "compose"), ("cluster", "helm")]);
    let (media_type, icon) = api.application_resource(ID, "1.0.0", "icon").await.unwrap();
    assert!(media_type.contains("svg") && icon.starts_with(b"<svg"), "{media_type}");
    assert_eq!(problem(api.application_resource(ID, "1.0.0", "licenseFile").await).code, "not-found");
}

#[tokio::test]
async fn accepts_the_same_package_again_and_rejects_another_with_its_version() {
    let server = TestServer::start().await;
    let api = api(&server);
    let first = upload(&api, "1.0.0").await;
    let again = upload(&api, "1.0.0").await;
    assert!(!again.added);
    assert_eq!(again.application.imported_at, first.application.imported_at);
    let mut other = files("1.0.0");
    other[0].1 = description("1.0.0").replace("Watches the press", "Watches another press").into_bytes();
    assert_eq!(problem(api.upload_application(pack(&other), None, None).await).code, "exists");
}

#[tokio::test]
async fn keeps_versions_side_by_side() {
    let server = TestServer::start().await;
    let api = api(&server);
    upload(&api, "1.0.0").await;
    upload(&api, "2.0.0").await;
    let listed = api.applications(&PageQuery::default()).await.unwrap().items;
    assert_eq!((listed.len(), listed[0].versions), (1, 2));
    let detail = api.application(ID).await.unwrap();
    assert_eq!(detail.versions.len(), 2);
    assert_eq!(api.application_version(ID, "2.0.0").await.unwrap().version, "2.0.0");
    assert_eq!(problem(api.application("nothing").await).code, "not-found");
    assert_eq!(problem(api.application_version(ID, "9.9.9").await).code, "not-found");
}

#[tokio::test]
async fn rejects_an_invalid_package_with_all_its_problems() {
    let server = TestServer::start().await;
    let api = api(&server);
    let broken = description("1.0.0")
        .replace("id: press-vision", "id: Press_Vision")
        .replace("  version: 1.0.0\n  catalog", "  catalog")
        .replace("type: helm", "type: magic")
        .replace("schema: seconds", "schema: minutes");
    let archive = pack(&[("margo.yaml".to_owned(), broken.into_bytes())]);
    let problem = problem(api.upload_application(archive, None, None).await);
    assert_eq!((problem.code.as_str(), problem.status), ("broken-package", 422));
    let fields: Vec<&str> = problem.errors.iter().map(|error| error.field.as_str()).collect();
    let schema = "configuration.sections[0].settings[1].schema";
    let icon = "metadata.catalog.application.icon";
    assert_eq!(fields, ["id", "metadata.version", icon, "deploymentProfiles[1].type", schema], "{problem:?}");
    assert!(problem.errors.iter().all(|error| error.message.starts_with("line ")), "{problem:?}");
    assert!(problem.detail.contains("has 5 problems"), "{problem:?}");
    assert!(api.applications(&PageQuery::default()).await.unwrap().items.is_empty());
}

#[tokio::test]
async fn checks_structure_references_and_files_in_one_pass() {
    // AP-01
    let server = TestServer::start().await;
    let api = api(&server);
    let broken = description("1.0.0")
        .replace("id: press-vision", "id: Press_Vision")
        .replace("    organization:", "    organizations:")
        .replace("schema: seconds", "schema: minutes");
    let archive = pack(&[("margo.yaml".to_owned(), broken.into_bytes())]);
    let refused = problem(api.upload_application(archive, None, None).await);
    let fields: Vec<&str> = refused.errors.iter().map(|error| error.field.as_str()).collect();
    for field in [
        "id",
        "metadata.catalog.application.icon",
        "metadata.catalog.organization",
        "configuration.sections[0].settings[1].schema",
    ] {
        assert!(fields.contains(&field), "{field}: {refused:?}");
    }
    let archive = pack(&[("margo.yaml".to_owned(), b"id: a\ndeploymentProfiles: [1\n".to_vec())]);
    let refused = problem(api.upload_application(archive, None, None).await);
    assert_eq!(refused.errors.len(), 1, "{refused:?}");
    assert_eq!(refused.errors[0].field, "margo.yaml");
    assert!(refused.errors[0].message.ends_with("fix this first, it blocks further checks"), "{refused:?}");
}

#[tokio::test]
async fn rejects_uploads_that_are_not_packages() {
    let server = TestServer::start().await;
    let api = api(&server);
    let text = problem(api.upload_application(b"hello".to_vec(), None, None).await);
    assert_eq!(text.code, "broken-package");
    assert_eq!(
        text.detail,
        "this is a text file, not an archive; pack the folder that contains `margo.yaml`: \
         `tar -czf package.tar.gz -C FOLDER .`, or use `margrave app import FOLDER`"
    );
    assert_eq!(problem(api.upload_application(pack(&[]), None, None).await).code, "broken-package");
    assert_eq!(problem(api.upload_application(Vec::new(), None, None).await).code, "broken-package");
    let huge = vec![0; (32 << 20) + 1];
    let huge = problem(api.upload_application(huge, None, None).await);
    assert_eq!(huge.code, "too-large");
    assert!(huge.detail.contains("larger than 32 MiB"), "{huge:?}");
}

#[tokio::test]
async fn a_plain_tar_and_one_of_the_folder_itself_are_packages_too() {
    let server = TestServer::start().await;
    let api = api(&server);
    let mut builder = tar::Builder::new(Vec::new());
    for (path, bytes) in files("1.0.0") {
        let mut header = tar::Header::new_gnu();
        header.set_mode(0o644);
        header.set_size(bytes.len() as u64);
        builder.append_data(&mut header, format!("apps/press-vision/{path}"), bytes.as_slice()).unwrap();
    }
    let archive = builder.into_inner().unwrap();
    assert!(api.upload_application(archive, None, None).await.unwrap().added);
    assert!(!upload(&api, "1.0.0").await.added, "it is the same package");
}

#[tokio::test]
async fn shows_unneeded_files_in_one_line_next_to_the_warnings() {
    let server = TestServer::start().await;
    let api = api(&server);
    let mut all = files("1.0.0");
    all.push(("components/web/compose.yaml".to_owned(), b"services: {}".to_vec()));
    all.push(("README.md".to_owned(), b"# Read me".to_vec()));
    let imported = api.upload_application(pack(&all), None, None).await.unwrap().application;
    assert_eq!(imported.warnings, Vec::<String>::new());
    assert_eq!(imported.skipped, ["README.md", "components/web/compose.yaml"]);
    let page = Browser::signed_in(&server).await.get(&format!("/catalog/{ID}")).await.text().await.unwrap();
    assert!(page.contains("<summary>2 files of the package are not needed by the catalog</summary>"), "{page}");
    assert!(!page.contains("and is skipped"), "{page}");
}

#[tokio::test]
async fn an_oci_layout_is_read_and_its_digests_are_checked() {
    let server = TestServer::start().await;
    let api = api(&server);
    let good = layout(&[("1.0.0", package("1.0.0"))]);
    let imported = api.upload_application(pack(&good), Some("usb stick"), None).await.unwrap();
    assert!(imported.added && imported.application.warnings.is_empty(), "{imported:?}");
    assert!(!upload(&api, "1.0.0").await.added, "the same content from a folder is the same package");

    let mut tampered = layout(&[("2.0.0", package("2.0.0"))]);
    let blob = tampered.iter_mut().find(|(_, bytes)| bytes.starts_with(b"apiVersion")).unwrap();
    blob.1 = String::from_utf8(blob.1.clone()).unwrap().replace("Press vision", "Press Vision").into_bytes();
    let problem = problem(api.upload_application(pack(&tampered), None, None).await);
    assert!(problem.code == "broken-package" && problem.detail.contains("digest"), "{problem:?}");
}

#[tokio::test]
async fn requires_a_name_for_one_of_several_packages_in_a_layout() {
    let server = TestServer::start().await;
    let api = api(&server);
    let both = pack(&layout(&[("1.0.0", package("1.0.0")), ("latest", package("2.0.0"))]));
    let (code, fields) = refused(api.upload_application(both.clone(), None, None).await);
    assert_eq!((code.as_str(), fields), ("invalid", vec!["reference".to_owned()]));
    let response = crate::support::client::plain()
        .post(server.operators_url("/api/applications?reference=latest"))
        .bearer_auth(server.admin_token())
        .body(both)
        .send()
        .await
        .unwrap();
    assert_eq!(response.status(), 201);
    // REG-04
    let warnings = api.application_version(ID, "2.0.0").await.unwrap().warnings;
    assert!(warnings.iter().any(|warning| warning.contains("latest")), "{warnings:?}");
}

#[tokio::test]
async fn a_version_in_use_stays_in_the_catalog() {
    let server = TestServer::start().await;
    let api = api(&server);
    press(&server, "press", &Kind::default()).await;
    deployed(&server, "press").await;
    upload(&api, "2.0.0").await;
    assert_eq!(problem(api.delete_application_version(ID, "1.0.0", None).await).code, "in-use");
    api.delete_application_version(ID, "2.0.0", Some("withdrawn")).await.unwrap();
    assert_eq!(problem(api.delete_application_version(ID, "2.0.0", None).await).code, "not-found");
    assert_eq!(api.application(ID).await.unwrap().versions.len(), 1);
}

#[tokio::test]
async fn lists_parameters_by_section_with_their_rules() {
    let server = TestServer::start().await;
    let api = api(&server);
    upload(&api, "1.0.0").await;
    let sections = api.application_parameters(ID, "1.0.0", None).await.unwrap().sections;
    let names: Vec<&str> = sections.iter().map(|section| section.name.as_str()).collect();
    assert_eq!(names, ["General", "Access"]);
    let interval = &sections[0].parameters[1];
    assert_eq!(
        (interval.data_type.as_str(), interval.rules.as_slice()),
        ("integer", ["10 to 3600".to_owned()].as_slice())
    );
    assert_eq!(interval.default, Some(60.into()));
    assert!(sections[0].parameters[2].immutable);
    assert!(sections[1].parameters[0].sensitive);
    let same = api.application_parameters(ID, "1.0.0", Some("small")).await.unwrap().sections;
    assert_eq!(same.len(), 2);
    assert_eq!(problem(api.application_parameters(ID, "1.0.0", Some("tiny")).await).code, "invalid");
}
