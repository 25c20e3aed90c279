//! TLS 1.3 with one crypto provider: mutual to the WFM, pinned or anchored to the trust endpoint.

use crate::identity::{Identity, Svid};
use margo::spiffe::WfmIdentity;
use margrave_core::time::{Clock, Timestamp};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ClientConfig, Resumption};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, aws_lc_rs};
use rustls::time_provider::TimeProvider;
use rustls::version::TLS13;
use rustls::{CertificateError, DigitallySignedStruct, RootCertStore, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, TrustAnchor as TrustAnchorDer, UnixTime};
use std::sync::Arc;
use std::time::Duration;
use webpki::{EndEntityCert, KeyUsage, anchor_from_trusted_cert};

#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("set up TLS")]
    Setup(#[source] rustls::Error),
    #[error("`{0}` is not a pin: write `sha256:` and 64 hexadecimal digits of the server's public key digest")]
    Pin(String),
    #[error("the CA file cannot be used: {0}")]
    Ca(String),
}

/// How the trust endpoint proves its identity. There is no trust on first use (TLS-05).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TrustAnchor {
    /// PEM certificates of the authority of the endpoint.
    Ca(Vec<u8>),
    /// SHA-256 of the SubjectPublicKeyInfo of the endpoint's certificate.
    Pin([u8; 32]),
}

impl TrustAnchor {
    pub fn parse_pin(text: &str) -> Result<Self, TlsError> {
        let digest: margo::Digest =
            text.to_ascii_lowercase().parse().map_err(|_| TlsError::Pin(text.chars().take(100).collect()))?;
        let hex = digest.hex();
        let mut pin = [0; 32];
        for (byte, at) in pin.iter_mut().zip((0..64).step_by(2)) {
            *byte = u8::from_str_radix(&hex[at..at + 2], 16).map_err(|_| TlsError::Pin(text.to_owned()))?;
        }
        Ok(Self::Pin(pin))
    }
}

/// Mutual TLS, only to the WFM of this client.
pub fn wfm_config(identity: &Identity, clock: Arc<dyn Clock>) -> Result<ClientConfig, TlsError> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    // WID-04: from the client's own SVID, not from configuration.
    let expected = Expected::Wfm { id: identity.client.wfm.clone(), anchors: identity.anchors.clone() };
    let verifier = Verifier { expected, provider: Arc::clone(&provider) };
    let mut config = ClientConfig::builder_with_details(provider, Arc::new(ClockTime(clock)))
        .with_protocol_versions(&[&TLS13])
        .map_err(TlsError::Setup)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_client_auth_cert(identity.chain.clone(), identity.key.clone_key())
        .map_err(TlsError::Setup)?;
    // TLS-03: a resumed session would outlive the checks of the full handshake.
    config.resumption = Resumption::disabled();
    Ok(config)
}

/// Whether the trust bundle of an identity trusts its own chain: otherwise the server would reject it.
pub(crate) fn is_trusted_by_its_bundle(identity: &Identity, clock: &dyn Clock) -> Result<(), String> {
    let Some((leaf, intermediates)) = identity.chain.split_first() else { return Err("no certificate".to_owned()) };
    let algorithms = aws_lc_rs::default_provider().signature_verification_algorithms;
    let now = UnixTime::since_unix_epoch(Duration::from_micros(u64::try_from(clock.now().0).unwrap_or(0)));
    let anchors = anchors_at(&identity.anchors, now);
    let leaf = EndEntityCert::try_from(leaf).map_err(|error| explain(&error))?;
    leaf.verify_for_usage(algorithms.all, &anchors, intermediates, now, KeyUsage::client_auth(), None, None)
        .map(|_| ())
        .map_err(|error| format!("its certificate is not trusted: {}", explain(&error)))
}

/// Whether the manager of this client signed these bytes at `at`.
pub(crate) fn verify_statement(
    identity: &Identity,
    chain: &[CertificateDer<'_>],
    at: UnixTime,
    scheme: u16,
    bytes: &[u8],
    signature: &[u8],
) -> Result<(), String> {
    let Some((leaf, intermediates)) = chain.split_first() else { return Err("it contains no certificate".to_owned()) };
    let algorithms = aws_lc_rs::default_provider().signature_verification_algorithms;
    let anchors = anchors_at(&identity.anchors, at);
    verify_wfm(&identity.client.wfm, &anchors, leaf, intermediates, at, &algorithms).map_err(|error| {
        format!("it is not signed by the manager of this device: {}", crate::http::explain_tls(&error).1)
    })?;
    let known = algorithms.mapping.iter().find(|(known, _)| u16::from(*known) == scheme);
    let (_, known) = known.ok_or_else(|| format!("signature scheme {scheme:#06x} is unknown"))?;
    let leaf = EndEntityCert::try_from(leaf).map_err(|error| explain(&error))?;
    let matches = known.iter().any(|algorithm| leaf.verify_signature(*algorithm, bytes, signature).is_ok());
    matches.then_some(()).ok_or_else(|| "its signature does not match its content".to_owned())
}

/// Ordinary TLS to the trust endpoint.
pub fn trust_config(anchor: &TrustAnchor, clock: Arc<dyn Clock>) -> Result<ClientConfig, TlsError> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_details(Arc::clone(&provider), Arc::new(ClockTime(clock)))
        .with_protocol_versions(&[&TLS13])
        .map_err(TlsError::Setup)?;
    let builder = match anchor {
        TrustAnchor::Ca(pem) => {
            let mut roots = RootCertStore::empty();
            for certificate in crate::identity::pem_certificates(pem).map_err(TlsError::Ca)? {
                roots.add(certificate).map_err(|error| TlsError::Ca(error.to_string()))?;
            }
            if roots.is_empty() {
                return Err(TlsError::Ca("it holds no certificate".to_owned()));
            }
            builder.with_root_certificates(roots)
        }
        TrustAnchor::Pin(pin) => {
            let verifier = Verifier { expected: Expected::Pin(*pin), provider };
            builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier))
        }
    };
    let mut config = builder.with_no_client_auth();
    config.resumption = Resumption::disabled();
    Ok(config)
}

struct ClockTime(Arc<dyn Clock>);

impl std::fmt::Debug for ClockTime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ClockTime")
    }
}

impl TimeProvider for ClockTime {
    fn current_time(&self) -> Option<UnixTime> {
        let Timestamp(micros) = self.0.now();
        Some(UnixTime::since_unix_epoch(Duration::from_micros(u64::try_from(micros).ok()?)))
    }
}

/// The anchors that are valid at this time: webpki does not check their validity.
fn anchors_at<'a>(anchors: &'a [CertificateDer<'static>], now: UnixTime) -> Vec<TrustAnchorDer<'a>> {
    let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    let valid = |anchor: &&CertificateDer<'_>| {
        x509_parser::parse_x509_certificate(anchor).is_ok_and(|(_, parsed)| {
            let validity = parsed.validity();
            (validity.not_before.timestamp()..=validity.not_after.timestamp()).contains(&now)
        })
    };
    anchors.iter().filter(valid).filter_map(|anchor| anchor_from_trusted_cert(anchor).ok()).collect()
}

/// The expected identity of the server.
#[derive(Debug)]
enum Expected {
    /// The WFM is identified by its SPIFFE ID; the URL is only for routing (WID-04, SV-03).
    Wfm { id: WfmIdentity, anchors: Vec<CertificateDer<'static>> },
    /// TLS-05: the public key is known beforehand; a DNS name, if used, must match too.
    Pin([u8; 32]),
}

#[derive(Debug)]
struct Verifier {
    expected: Expected,
    provider: Arc<CryptoProvider>,
}

/// Why a certificate is not valid, as a clause about it.
fn explain(error: &webpki::Error) -> String {
    match error {
        webpki::Error::CertExpired { time, not_after } => expired(*not_after, *time),
        webpki::Error::CertNotValidYet { time, not_before } => not_valid_yet(*not_before, *time),
        webpki::Error::UnknownIssuer | webpki::Error::InvalidSignatureForPublicKey => UNTRUSTED.to_owned(),
        webpki::Error::CertNotValidForName(_) => "it is not valid for the name of the server".to_owned(),
        other => format!("it is not valid ({other})"),
    }
}

fn unusable(error: &webpki::Error) -> String {
    format!("the server's certificate cannot be used: {}", explain(error))
}

pub(crate) const UNTRUSTED: &str = "it is not signed by an authority this device trusts";

pub(crate) fn expired(not_after: UnixTime, now: UnixTime) -> String {
    format!("it expired on {}; this device's clock says {}: check the clock", date(not_after), date(now))
}

pub(crate) fn not_valid_yet(not_before: UnixTime, now: UnixTime) -> String {
    format!("it is valid from {}; this device's clock says {}: check the clock", date(not_before), date(now))
}

/// The day in UTC, such as `2026-11-25`.
fn date(at: UnixTime) -> String {
    let micros = i64::try_from(at.as_secs()).unwrap_or(i64::MAX).saturating_mul(1_000_000);
    Timestamp(micros).to_string().chars().take("2026-11-25".len()).collect()
}

fn refuse(reason: impl Into<String>) -> rustls::Error {
    let reason: Box<dyn std::error::Error + Send + Sync> = reason.into().into();
    rustls::Error::InvalidCertificate(CertificateError::Other(rustls::OtherError(Arc::from(reason))))
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        match &self.expected {
            Expected::Wfm { id, anchors } => {
                let algorithms = &self.provider.signature_verification_algorithms;
                verify_wfm(id, &anchors_at(anchors, now), end_entity, intermediates, now, algorithms)?;
            }
            Expected::Pin(pin) => verify_pin(*pin, end_entity, server_name)?,
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        // TLS-01: never offered.
        Err(rustls::PeerIncompatible::ServerDoesNotSupportTls12Or13.into())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// SV-03, in its order: trust domain, chain and validity, leaf.
fn verify_wfm(
    expected: &WfmIdentity,
    anchors: &[TrustAnchorDer<'_>],
    end_entity: &CertificateDer<'_>,
    intermediates: &[CertificateDer<'_>],
    now: UnixTime,
    algorithms: &WebPkiSupportedAlgorithms,
) -> Result<(), rustls::Error> {
    let svid = Svid::read(end_entity).map_err(refuse)?;
    let prefix = format!("spiffe://{}/", expected.trust_domain);
    if !svid.spiffe_id.starts_with(&prefix) {
        let (id, domain) = (svid.spiffe_id, &expected.trust_domain);
        return Err(refuse(format!("the server is `{id}`, which is not in trust domain `{domain}`")));
    }
    let usage = KeyUsage::server_auth();
    EndEntityCert::try_from(end_entity)
        .and_then(|leaf| {
            leaf.verify_for_usage(algorithms.all, anchors, intermediates, now, usage, None, None).map(|_| ())
        })
        .map_err(|error| refuse(format!("the server's certificate is not trusted: {}", explain(&error))))?;
    if svid.spiffe_id == expected.to_string() {
        Ok(())
    } else {
        Err(refuse(format!("the server is `{}`, this client belongs to `{expected}`", svid.spiffe_id)))
    }
}

fn verify_pin(
    pin: [u8; 32],
    end_entity: &CertificateDer<'_>,
    server_name: &ServerName<'_>,
) -> Result<(), rustls::Error> {
    let leaf = EndEntityCert::try_from(end_entity).map_err(|error| refuse(unusable(&error)))?;
    let digest = ::aws_lc_rs::digest::digest(&::aws_lc_rs::digest::SHA256, leaf.subject_public_key_info().as_ref());
    if digest.as_ref() != pin {
        let seen = margo::digest::hex(digest.as_ref());
        return Err(refuse(format!("the server's public key is sha256:{seen}, which is not the one pinned")));
    }
    if let ServerName::DnsName(_) = server_name {
        leaf.verify_is_valid_for_subject_name(server_name).map_err(|error| refuse(unusable(&error)))?;
    }
    Ok(())
}
