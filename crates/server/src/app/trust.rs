//! The trust domain: what operators need to point devices at this server.

use crate::state::ServerState;
use margrave_api::clients::Trust;

pub fn get(state: &ServerState) -> Trust {
    let wfm = state.identity.wfm();
    Trust {
        trust_domain: wfm.trust_domain.to_string(),
        wfm_id: wfm.wfm_id.to_string(),
        wfm_spiffe_id: wfm.to_string(),
        wfm_url: wfm_url(state),
        trust_url: trust_url(state),
        pin: state.identity.pin(),
        trust_bundle: state.identity.bundle_pem(),
        https_ca: state.identity.https_ca_pem(),
    }
}

/// URL of the device API.
pub fn wfm_url(state: &ServerState) -> String {
    state.urls.devices.clone()
}

/// URL of the trust listener.
pub fn trust_url(state: &ServerState) -> String {
    state.urls.trust.clone()
}
