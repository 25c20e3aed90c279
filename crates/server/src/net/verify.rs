//! Client verification of the device listener: clients of this WFM with an X.509-SVID of its trust domain.

use margo::spiffe::{ClientIdentity, WfmIdentity};
use margrave_core::time::Timestamp;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, OtherError, SignatureScheme};
use rustls_pki_types::{CertificateDer, TrustAnchor, UnixTime};
use std::sync::Arc;
use webpki::{EndEntityCert, KeyUsage, anchor_from_trusted_cert};
use x509_parser::extensions::GeneralName;

/// An anchor with its validity, which webpki does not check.
#[derive(Debug)]
struct Anchor {
    trusted: TrustAnchor<'static>,
    not_before: u64,
    not_after: u64,
}

/// Checks a client certificate according to SV-03 and WID-03. There are no revocation lists (TLS-02).
#[derive(Debug)]
pub struct ClientVerifier {
    wfm: WfmIdentity,
    anchors: Vec<Anchor>,
    algorithms: WebPkiSupportedAlgorithms,
}

/// Why a certificate does not belong to a client of this server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotOurClient {
    #[error("the certificate cannot be read")]
    Unreadable,
    #[error("the certificate has {0} URI names instead of exactly one")]
    UriNames(usize),
    #[error("{0}")]
    Form(#[from] margo::spiffe::SpiffeError),
    #[error("`{0}` is not a client of this server")]
    Namespace(String),
    #[error("the certificate is a CA certificate")]
    Authority,
}

impl ClientVerifier {
    pub fn new(
        wfm: WfmIdentity,
        anchors: &[CertificateDer<'static>],
        algorithms: WebPkiSupportedAlgorithms,
    ) -> Result<Self, webpki::Error> {
        let anchors = anchors
            .iter()
            .map(|der| {
                let trusted = anchor_from_trusted_cert(der)?.to_owned();
                let (_, parsed) = x509_parser::parse_x509_certificate(der).map_err(|_| webpki::Error::BadDer)?;
                let seconds = |at: i64| u64::try_from(at).unwrap_or(0);
                Ok(Anchor {
                    trusted,
                    not_before: seconds(parsed.validity().not_before.timestamp()),
                    not_after: seconds(parsed.validity().not_after.timestamp()),
                })
            })
            .collect::<Result<_, webpki::Error>>()?;
        Ok(Self { wfm, anchors, algorithms })
    }

    /// The client named by a leaf, if it belongs to this WFM (WID-03).
    pub fn identify(&self, leaf: &CertificateDer<'_>) -> Result<ClientIdentity, NotOurClient> {
        let identity = client_identity(leaf)?;
        if identity.wfm == self.wfm { Ok(identity) } else { Err(NotOurClient::Namespace(identity.to_string())) }
    }

    fn anchors_at(&self, now: UnixTime) -> Vec<TrustAnchor<'static>> {
        let now = now.as_secs();
        let valid = |anchor: &&Anchor| (anchor.not_before..=anchor.not_after).contains(&now);
        self.anchors.iter().filter(valid).map(|anchor| anchor.trusted.clone()).collect()
    }
}

impl ClientCertVerifier for ClientVerifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        // A client has one SVID; hints would only reveal the trust domain.
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        // In the order of SV-03: name, chain and time, leaf. The leaf is checked together with the name.
        self.identify(end_entity).map_err(refused)?;
        let leaf = EndEntityCert::try_from(end_entity).map_err(chain_error)?;
        leaf.verify_for_usage(
            self.algorithms.all,
            &self.anchors_at(now),
            intermediates,
            now,
            KeyUsage::client_auth(),
            None,
            None,
        )
        .map_err(chain_error)?;
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        // TLS 1.2 is never offered (TLS-01).
        Err(Error::General("TLS 1.2 is not supported".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls13_signature(message, cert, dss, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// The client identity in a leaf, with the leaf checks of SV-03.
fn client_identity(leaf: &CertificateDer<'_>) -> Result<ClientIdentity, NotOurClient> {
    let (_, parsed) = x509_parser::parse_x509_certificate(leaf).map_err(|_| NotOurClient::Unreadable)?;
    let names = parsed.subject_alternative_name().map_err(|_| NotOurClient::Unreadable)?;
    let uris: Vec<&str> = names
        .iter()
        .flat_map(|extension| &extension.value.general_names)
        .filter_map(|name| match name {
            GeneralName::URI(uri) => Some(*uri),
            _ => None,
        })
        .collect();
    let [uri] = uris[..] else { return Err(NotOurClient::UriNames(uris.len())) };
    let signs = parsed
        .key_usage()
        .map_err(|_| NotOurClient::Unreadable)?
        .is_some_and(|usage| usage.value.key_cert_sign() || usage.value.crl_sign());
    if parsed.is_ca() || signs {
        return Err(NotOurClient::Authority);
    }
    Ok(ClientIdentity::parse(uri)?)
}

/// The identity of a connection after its handshake, and the expiry of its certificate.
pub(super) fn peer_of(leaf: &CertificateDer<'_>) -> Option<(ClientIdentity, Timestamp)> {
    let identity = client_identity(leaf).ok()?;
    let (_, parsed) = x509_parser::parse_x509_certificate(leaf).ok()?;
    Some((identity, Timestamp(parsed.validity().not_after.timestamp().saturating_mul(1_000_000))))
}

fn refused(reason: NotOurClient) -> Error {
    Error::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(reason))))
}

fn chain_error(error: webpki::Error) -> Error {
    use webpki::Error as Webpki;
    Error::InvalidCertificate(match error {
        Webpki::CertExpired { .. } => CertificateError::Expired,
        Webpki::CertNotValidYet { .. } => CertificateError::NotValidYet,
        Webpki::UnknownIssuer => CertificateError::UnknownIssuer,
        other => CertificateError::Other(OtherError(Arc::new(Described(other.to_string())))),
    })
}

#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Described(String);
