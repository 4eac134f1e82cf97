//! TLS that trusts certificates of a file besides the system's.

use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::verify_server_name;
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{ClientConfig, DigitallySignedStruct, Error, SignatureScheme};
use rustls_platform_verifier::Verifier;

/// Verifies servers by the system's roots and the trusted certificates. A server may also present a trusted certificate
/// itself, as one that `openssl req -x509` makes: it is marked as a CA, which rules it out as a server's otherwise.
#[derive(Debug)]
struct TrustedVerifier {
    /// Read when the first server shows its certificate: it takes 10 ms, and nodes without TLS need none. A system may have
    /// none, such as an empty container.
    roots: OnceLock<Verifier>,
    provider: Arc<CryptoProvider>,
    trusted: Vec<CertificateDer<'static>>,
}

/// Settings by what they trust. A process has those of `upstream`, and those of direct calls.
static KNOWN: Mutex<Vec<(Vec<CertificateDer<'static>>, ClientConfig)>> = Mutex::new(Vec::new());

/// Returns the TLS settings of a client that trusts these certificates, and those of the system if it has any. Clients
/// that trust the same share the certificates.
pub(super) fn tls_config(trusted: &[CertificateDer<'static>]) -> ClientConfig {
    let mut known = KNOWN.lock();
    if let Some((_, config)) = known.iter().find(|(certificates, _)| certificates == trusted) {
        return config.clone();
    }
    // All TLS of the process uses it. It stays the first one that was installed.
    let _ = ring::default_provider().install_default();
    let builder = ClientConfig::builder();
    let provider = Arc::clone(builder.crypto_provider());
    let verifier = TrustedVerifier { roots: OnceLock::new(), provider, trusted: trusted.to_vec() };
    // Its name warns of verifiers that check less.
    let builder = builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier));
    let mut config = builder.with_no_client_auth();
    // A server that also speaks HTTP/2 may refuse a client that names no version.
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    known.push((trusted.to_vec(), config.clone()));
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
        // What cannot be read now is read again for the next server.
        let roots = if let Some(roots) = self.roots.get() {
            roots
        } else {
            let trusted = self.trusted.iter().cloned();
            let roots = Verifier::new_with_extra_roots(trusted, Arc::clone(&self.provider))?;
            self.roots.get_or_init(|| roots)
        };
        let verified =
            roots.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
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
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
