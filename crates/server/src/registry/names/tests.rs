//! The grammar, case by case.

use super::{Digest, Reference, RepositoryName, Tag};

#[test]
fn accepts_only_repository_names_of_the_grammar() {
    for good in ["a", "library/nginx", "a/b/c/d", "a.b", "a_b", "a__b", "a-b", "a---b", "0/1", "org/app-1.2_x"] {
        let name: RepositoryName = good.parse().unwrap();
        assert_eq!(RepositoryName::from_folder(&name.folder()), Some(name), "{good}");
    }
    let long = "a".repeat(256);
    for bad in [
        "", "/", "a/", "/a", "a//b", "A", "a..b", "a___b", "a_-b", "-a", "a-", ".a", "a.", "a b", "a,b", "ä", "..",
        &long,
    ] {
        assert!(bad.parse::<RepositoryName>().is_err(), "{bad}");
    }
}

#[test]
fn accepts_only_tags_of_the_grammar() {
    for good in ["a", "_", "1.0.0", "v1.2-rc.1_x", "A", &"t".repeat(128)] {
        assert!(good.parse::<Tag>().is_ok(), "{good}");
    }
    for bad in ["", ".", "..", ".a", "-a", "a/b", "a:b", "a+b", "a b", &"t".repeat(129)] {
        assert!(bad.parse::<Tag>().is_err(), "{bad}");
    }
}

#[test]
fn sorts_tags_without_regard_to_case() {
    let mut tags: Vec<Tag> = ["b", "B", "a", "C", "1"].iter().map(|tag| tag.parse().unwrap()).collect();
    tags.sort();
    assert_eq!(tags.iter().map(Tag::as_str).collect::<Vec<_>>(), ["1", "a", "B", "b", "C"]);
}

#[test]
fn reads_back_the_digests_it_writes() {
    for algorithm in [super::Algorithm::Sha256, super::Algorithm::Sha512] {
        let digest = Digest::of(algorithm, b"{}");
        assert_eq!(digest.to_string().parse::<Digest>().unwrap(), digest);
    }
    assert_eq!(
        Digest::sha256(b"{}").to_string(),
        "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
    );
}

#[test]
fn rejects_digests_in_any_other_form() {
    let hex = "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a";
    for bad in [
        "",
        "sha256:",
        "sha256",
        hex,
        &format!("md5:{hex}"),
        &format!("sha512:{hex}"),
        &format!("sha256:{}", hex.to_uppercase()),
    ] {
        assert!(bad.parse::<Digest>().is_err(), "{bad}");
    }
    assert!(format!("sha256:{}", &hex[1..]).parse::<Digest>().is_err());
    assert!(format!("sha256:{hex}0").parse::<Digest>().is_err());
}

#[test]
fn distinguishes_tags_from_digests() {
    assert!(matches!("latest".parse(), Ok(Reference::Tag(_))));
    assert!(matches!(Digest::sha256(b"").to_string().parse(), Ok(Reference::Digest(_))));
    assert!("sha256:xyz".parse::<Reference>().is_err());
}
