//! TLS that trusts certificates of a file besides the system's.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_name;
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use rustls_platform_verifier::Verifier;

/// Verifies servers by the system's roots and the trusted certificates. A server may also present a trusted certificate
/// itself, as one that `openssl req -x509` makes: it is marked as a CA, which rules it out as a server's otherwise.
#[derive(Debug)]
struct TrustedVerifier {
    roots: Verifier,
    trusted: Vec<CertificateDer<'static>>,
}

/// Returns the TLS settings of a client that trusts these certificates, and those of the system if it has any.
pub(super) fn tls_config(trusted: &[CertificateDer<'static>]) -> ClientConfig {
    // All TLS of the process uses it. It stays the first one that was installed.
    let _ = ring::default_provider().install_default();
    let builder = ClientConfig::builder();
    let provider = Arc::clone(builder.crypto_provider());
    let mut config = match Verifier::new_with_extra_roots(trusted.iter().cloned(), provider) {
        Ok(roots) => {
            let verifier = Arc::new(TrustedVerifier { roots, trusted: trusted.to_vec() });
            // Its name warns of verifiers that check less.
            builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth()
        }
        // A system without certificates, such as an empty container. Nodes without TLS need none; others are refused.
        Err(_) => builder.with_root_certificates(RootCertStore::empty()).with_no_client_auth(),
    };
    // A server that also speaks HTTP/2 may refuse a client that names no version.
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    config
}

/// Returns true if the only fault of a certificate is that it is marked as a CA. The verifier checks the dates before.
fn is_ca_as_server(error: &Error) -> bool {
    error.to_string().contains("CaUsedAsEndEntity")
}

impl ServerCertVerifier for TrustedVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verified = self.roots.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        );
        match verified {
            Err(error) if is_ca_as_server(&error) && self.trusted.contains(end_entity) => {
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
                Ok(ServerCertVerified::assertion())
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.roots.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.roots.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.roots.supported_verify_schemes()
    }
}
