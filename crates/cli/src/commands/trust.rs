//! `margrave trust`: the certificates that devices and clients need to trust this server.

use super::Session;
use crate::failure::Outcome;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum TrustCommand {
    /// Show the trust domain, the server identity and the device endpoints
    Show,
    /// Print the trust anchors of the SVIDs as PEM
    Bundle,
    /// Print the certificate authority behind the HTTPS certificates as PEM, for --ca
    HttpsCa,
}

pub(crate) async fn run(command: TrustCommand, session: &Session) -> Outcome {
    let trust = session.api.trust().await?;
    match command {
        TrustCommand::Show => session.out.show(&trust, |out| {
            out.fields(&[
                ("Trust domain", trust.trust_domain.clone()),
                ("WFM", trust.wfm_spiffe_id.clone()),
                ("Devices connect to", trust.wfm_url.clone()),
                ("Devices enroll at", trust.trust_url.clone()),
                ("Certificate fingerprint", trust.pin.clone()),
            ])
        }),
        TrustCommand::Bundle => pem(session, &trust.trust_bundle),
        TrustCommand::HttpsCa => pem(session, &trust.https_ca),
    }
}

fn pem(session: &Session, pem: &str) -> Outcome {
    session.out.show(&serde_json::json!({ "pem": pem }), |_| pem.to_owned())
}
