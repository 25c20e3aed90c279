//! Why no connection to the server came about, as a value instead of the words of a TLS library.

use super::ClientError;
use rustls::{CertificateError, Error as TlsError};
use std::error::Error;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionFault {
    /// The address says `https`, but the server does not use TLS.
    WithoutTls,
    /// The address says `http`, but the server does not answer in plain HTTP.
    NotHttp,
    /// The certificate is not signed by a trusted authority.
    Untrusted,
    /// The certificate has expired or is not valid yet by the clock of this machine.
    OutOfTime,
    /// The certificate is for other names.
    OtherName,
    /// Any other problem of the TLS handshake.
    Handshake,
}

impl ConnectionFault {
    /// For people, after the address of the server.
    pub const fn words(self) -> &'static str {
        match self {
            Self::WithoutTls => "the server does not use TLS at this address",
            Self::NotHttp => "the server does not answer in plain HTTP at this address",
            Self::Untrusted => "the certificate of the server is not signed by an authority this machine trusts",
            Self::OutOfTime => "the certificate of the server has expired, or the clock of this machine is wrong",
            Self::OtherName => "the certificate of the server is for another name",
            Self::Handshake => "the server and this program cannot agree on a TLS connection",
        }
    }
}

impl ClientError {
    /// `None` if the reason is not in the protocol, such as a refused connection.
    pub fn connection_fault(&self) -> Option<ConnectionFault> {
        let Self::Unreachable { url, source } = self else { return None };
        match tls_error(source) {
            Some(error) => Some(of_tls(error)),
            None if url.scheme() == "http" && source.is_request() && !source.is_connect() && !source.is_timeout() => {
                Some(ConnectionFault::NotHttp)
            }
            None => None,
        }
    }
}

fn of_tls(error: &TlsError) -> ConnectionFault {
    match error {
        TlsError::InvalidMessage(_) => ConnectionFault::WithoutTls,
        TlsError::InvalidCertificate(reason) => match reason {
            CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. } => ConnectionFault::OutOfTime,
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                ConnectionFault::OtherName
            }
            _ => ConnectionFault::Untrusted,
        },
        _ => ConnectionFault::Handshake,
    }
}

/// An I/O error hides its inner error from `source`.
fn tls_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a TlsError> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref::<TlsError>() {
            return Some(found);
        }
        let inner = error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref);
        next = match inner {
            Some(inner) => Some(inner as &(dyn Error + 'static)),
            None => error.source(),
        };
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_tls_error_inside_of_io_errors() {
        let inner = std::io::Error::other(TlsError::InvalidCertificate(CertificateError::UnknownIssuer));
        let outer = std::io::Error::other(inner);
        assert_eq!(tls_error(&outer).map(of_tls), Some(ConnectionFault::Untrusted));
        assert!(tls_error(&std::io::Error::other("refused")).is_none());
    }
}
