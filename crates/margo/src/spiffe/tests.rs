use super::*;
use proptest::prelude::*;

#[test]
fn the_forms_of_the_profile_are_read() {
    // WID-01
    let wfm = WfmIdentity::parse("spiffe://plant.example/margo/wfm/main").unwrap();
    assert_eq!(wfm.trust_domain.as_str(), "plant.example");
    let client = ClientIdentity::parse("spiffe://plant.example/margo/wfm/main/client/Kiln_3.a-b").unwrap();
    assert_eq!(client, wfm.client("Kiln_3.a-b".parse().unwrap()));
    assert_eq!(client.to_string(), "spiffe://plant.example/margo/wfm/main/client/Kiln_3.a-b");
}

#[test]
fn other_paths_are_valid_ids_but_not_of_the_profile() {
    for uri in [
        "spiffe://td",
        "spiffe://td/margo",
        "spiffe://td/margo/wfm",
        "spiffe://td/margo/WFM/main",
        "spiffe://td/margo/wfm/main/client",
        "spiffe://td/margo/wfm/main/client/a/b",
        "spiffe://td/margo/wfm/main/device/a",
        "spiffe://td/other/wfm/main",
    ] {
        assert!(matches!(WfmIdentity::parse(uri), Err(SpiffeError::NotInProfile(_))), "{uri}");
        assert!(matches!(ClientIdentity::parse(uri), Err(SpiffeError::NotInProfile(_))), "{uri}");
    }
    let client = "spiffe://td/margo/wfm/main/client/a";
    assert!(matches!(WfmIdentity::parse(client), Err(SpiffeError::NotInProfile(_))), "a client is not a WFM");
}

#[test]
fn rejects_malformed_spiffe_ids() {
    for uri in [
        "",
        "https://td/margo/wfm/main",
        "SPIFFE://td/margo/wfm/main",
        "spiffe://",
        "spiffe:///margo/wfm/main",
        "spiffe://TD/margo/wfm/main",
        "spiffe://td:443/margo/wfm/main",
        "spiffe://user@td/margo/wfm/main",
        "spiffe://td/margo/wfm/main/",
        "spiffe://td/margo//wfm/main",
        "spiffe://td/margo/wfm/..",
        "spiffe://td/margo/wfm/.",
        "spiffe://td/margo/wfm/a~b",
        "spiffe://td/margo/wfm/a%20b",
        "spiffe://td/margo/wfm/main?x",
        "spiffe://td/margo/wfm/main#x",
        " spiffe://td/margo/wfm/main",
    ] {
        assert!(matches!(WfmIdentity::parse(uri), Err(SpiffeError::Malformed(_))), "{uri}");
    }
    assert!(TrustDomain::parse(&"a".repeat(256)).is_err());
    assert!(WfmIdentity::parse(&format!("spiffe://td/margo/wfm/{}", "a".repeat(3000))).is_err());
}

proptest! {
    #[test]
    fn a_printed_identity_reads_back(td in "[a-z0-9._-]{1,40}", wfm in "[A-Za-z0-9_-]{1,40}", client in "[A-Za-z0-9_-]{1,40}") {
        let wfm = WfmIdentity { trust_domain: TrustDomain::parse(&td).unwrap(), wfm_id: wfm.parse().unwrap() };
        prop_assert_eq!(&WfmIdentity::parse(&wfm.to_string()).unwrap(), &wfm);
        let client = wfm.client(client.parse().unwrap());
        prop_assert_eq!(ClientIdentity::parse(&client.to_string()).unwrap(), client);
    }

    #[test]
    fn accepted_ids_print_as_written(uri in "spiffe://[a-zA-Z./_:-]{0,12}/margo/wfm/[a-z./~]{0,8}") {
        if let Ok(identity) = WfmIdentity::parse(&uri) {
            prop_assert_eq!(identity.to_string(), uri);
        }
    }
}
