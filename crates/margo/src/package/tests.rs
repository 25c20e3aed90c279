use super::*;
use crate::finding::Severity;

mod all_problems;

const DESCRIPTION: &str = include_str!("../../tests/fixtures/description-b.yaml");

fn file(path: &str, bytes: &[u8]) -> PackageFile {
    PackageFile { path: path.to_owned(), bytes: bytes.to_vec() }
}

fn files() -> Vec<PackageFile> {
    vec![
        file("margo.yaml", DESCRIPTION.as_bytes()),
        file("resources/about.md", b"# Kiln Watch"),
        file("./resources/kiln.svg", b"<svg/>"),
        file("resources/license.txt", b"Do what you like."),
        file("resources/notes.md", b"- first"),
    ]
}

fn refused(files: &[PackageFile], path: &str, words: &str) {
    let findings = read(files).unwrap_err();
    let found = findings
        .0
        .iter()
        .any(|finding| finding.severity == Severity::Error && finding.path == path && finding.message.contains(words));
    assert!(found, "{findings}");
}

#[test]
fn a_folder_with_a_description_and_its_resources_is_a_package() {
    // AP-01, REG-07
    let read = read(&files()).unwrap();
    assert_eq!(read.warnings, []);
    let package = read.document;
    assert_eq!(package.description_bytes, DESCRIPTION.as_bytes());
    let types: Vec<_> = package.resources.iter().map(|resource| resource.media_type.as_str()).collect();
    assert_eq!(
        types,
        [
            "application/vnd.margo.app.icon.v1+svg",
            "application/vnd.margo.app.descriptionFile.v1+markdown",
            "application/vnd.margo.app.licenseFile.v1+plain",
            "application/vnd.margo.app.releaseNotes.v1+markdown",
        ]
    );
    assert_eq!(package.resources[0].path, "resources/kiln.svg");
}

#[test]
fn requires_exactly_one_description_in_the_root() {
    // AP-01
    refused(&files()[1..], "", "no YAML description");
    refused(&[files(), vec![file("copy.yml", DESCRIPTION.as_bytes())]].concat(), "", "more than one");
    let with_values = [files(), vec![file("values.yaml", b"a: 1"), file("charts/x.yaml", b"b: 2")]].concat();
    let read = read(&with_values).unwrap();
    assert_eq!(read.warnings.len(), 2, "{:?}", read.warnings);
    refused(&[file("a.yaml", b"a: 1"), file("b.yaml", b"b: 1")], "", "none of the YAML files");
}

#[test]
fn reports_all_problems_at_once() {
    let broken = DESCRIPTION.replacen("id: kiln-watch", "id: Kiln", 1).replacen("revision: 3.0.1", "revision: x", 1);
    let findings = read(&[file("margo.yaml", broken.as_bytes()), file("/abs", b"")]).unwrap_err();
    assert!(findings.0.iter().filter(|finding| finding.severity == Severity::Error).count() >= 3, "{findings}");
}

#[test]
fn requires_every_named_resource() {
    let without: Vec<_> = files().into_iter().filter(|file| !file.path.contains("notes")).collect();
    refused(&without, "metadata.catalog.application.releaseNotes", "`resources/notes.md`");
    let mut escaping = files();
    escaping[0].bytes = DESCRIPTION.replacen("./resources/about.md", "../about.md", 1).into_bytes();
    refused(&escaping, "metadata.catalog.application.descriptionFile", "inside the package");
}

#[test]
fn packages_are_bounded() {
    let many: Vec<_> = (0..=FILES_MAX).map(|n| file(&format!("f{n}"), b"")).collect();
    refused(&many, "", "more than 64 files");
    let mut large = files();
    large[1].bytes = vec![b' '; RESOURCE_BYTES_MAX + 1];
    refused(&large, "resources/about.md", "larger than");
    let mut description = files();
    description[0].bytes.resize(DESCRIPTION_BYTES_MAX + 1, b'\n');
    refused(&description, "margo.yaml", "larger than");
}

/// The package pulled back from its own artifact.
fn pulled(package: &Package) -> Package {
    let (manifest, blobs) = to_oci(package);
    let layers = OciManifest::read(&manifest).unwrap();
    assert_eq!(layers.warnings, []);
    let layers: Vec<_> = layers
        .document
        .layers
        .into_iter()
        .map(|layer| {
            let (digest, bytes) = blobs.iter().find(|(digest, _)| *digest == layer.digest).unwrap();
            assert_eq!((Digest::of(bytes), bytes.len() as u64), (digest.clone(), layer.size));
            (layer, bytes.clone())
        })
        .collect();
    read_layers(&layers).unwrap().document
}

#[test]
fn an_artifact_round_trips_its_package() {
    // REG-03 to REG-09, W-21
    let package = read(&files()).unwrap().document;
    assert_eq!(pulled(&package), package);
    assert_eq!(to_oci(&package), to_oci(&package));
}

#[test]
fn the_artifact_has_the_types_and_annotations_of_the_standard() {
    let package = read(&files()).unwrap().document;
    let manifest: serde_json::Value = serde_json::from_slice(&to_oci(&package).0).unwrap();
    // REG-05
    assert_eq!(manifest["artifactType"], APP_ARTIFACT_TYPE);
    assert_eq!(manifest["config"]["mediaType"], "application/vnd.oci.empty.v1+json");
    assert_eq!(manifest["config"]["digest"], "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a");
    assert_eq!((&manifest["config"]["size"], &manifest["config"]["data"]), (&2.into(), &"e30=".into()));
    // REG-06, REG-08
    assert_eq!(manifest["layers"][0]["mediaType"], DESCRIPTION_MEDIA_TYPE);
    let annotations = &manifest["layers"][1]["annotations"];
    assert_eq!(annotations["org.margo.app.resource"], "metadata.catalog.application.icon");
    assert_eq!(annotations["org.opencontainers.image.title"], "resources/kiln.svg");
}

fn manifest_refused(change: impl FnOnce(&mut serde_json::Value), path: &str) {
    let package = read(&files()).unwrap().document;
    let mut manifest: serde_json::Value = serde_json::from_slice(&to_oci(&package).0).unwrap();
    change(&mut manifest);
    let findings = OciManifest::read(manifest.to_string().as_bytes()).unwrap_err();
    assert!(findings.0.iter().any(|finding| finding.path == path), "{findings}");
}

#[test]
fn rejects_artifacts_that_are_not_packages() {
    // REG-05, REG-06, REG-07
    manifest_refused(|manifest| manifest["artifactType"] = "application/x".into(), "artifactType");
    manifest_refused(|manifest| manifest["mediaType"] = "application/x".into(), "mediaType");
    manifest_refused(|manifest| manifest["config"]["mediaType"] = "application/x".into(), "config.mediaType");
    manifest_refused(|manifest| manifest["layers"][1]["mediaType"] = "application/x".into(), "layers[1].mediaType");
    manifest_refused(|manifest| manifest["layers"][1]["mediaType"] = DESCRIPTION_MEDIA_TYPE.into(), "layers");
    manifest_refused(|manifest| manifest["layers"] = serde_json::json!([]), "layers");
    manifest_refused(|manifest| manifest["layers"][0]["digest"] = "sha512:00".into(), "layers[0].digest");
    manifest_refused(|manifest| manifest["layers"][0]["size"] = (u64::MAX).into(), "layers[0].size");
}

#[test]
fn a_named_resource_without_a_layer_is_refused() {
    let package = read(&files()).unwrap().document;
    let layer = |media_type: &str, bytes: &[u8]| {
        let media_type = media_type.to_owned();
        let layer =
            Layer { media_type, digest: Digest::of(bytes), size: bytes.len() as u64, title: None, resource: None };
        (layer, bytes.to_vec())
    };
    let description = layer(DESCRIPTION_MEDIA_TYPE, &package.description_bytes);
    let findings = read_layers(std::slice::from_ref(&description)).unwrap_err();
    assert_eq!(findings.0.len(), 4, "{findings}");
    // REG-08: the media type alone suffices.
    let layers: Vec<_> = [description]
        .into_iter()
        .chain(package.resources.iter().map(|resource| layer(&resource.media_type, &resource.bytes)))
        .collect();
    assert_eq!(read_layers(&layers).unwrap().document, package);
    assert!(read_layers(&layers[1..]).is_err());
}
