//! The `[upstream]` section: how requests to nodes and to other services leave the service.

use std::fmt;
use std::path::{Path, PathBuf};

use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde::de::{Deserialize, Deserializer, Error};
use serde::ser::{Serialize, Serializer};

use super::secret_url::UpstreamUrl;

/// Way of requests to upstreams.
#[derive(Debug, Clone, Default, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Upstream {
    /// Forward proxy of all these requests.
    pub proxy: ForwardProxy,
    /// Certificates that are trusted besides the system's.
    pub ca_file: TrustedCertificates,
}

/// A forward proxy.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ForwardProxy {
    /// Requests go to the upstreams directly.
    #[default]
    Off,
    /// `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY` of the environment decide.
    Environment,
    /// All requests go through this proxy, those to `https://` URLs by `CONNECT`.
    #[serde(untagged)]
    Url(UpstreamUrl),
}

impl Upstream {
    /// Secrets for the redactor.
    pub(crate) fn secrets(&self) -> Vec<String> {
        match &self.proxy {
            ForwardProxy::Url(url) => url.secrets(),
            ForwardProxy::Off | ForwardProxy::Environment => Vec::new(),
        }
    }
}

impl<'de> Deserialize<'de> for ForwardProxy {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        const EXPECTED: &str = "expected \"off\", \"environment\" or an http:// or https:// URL of a proxy (not shown: it may carry a password)";
        match String::deserialize(input)?.trim() {
            "off" => Ok(Self::Off),
            "environment" => Ok(Self::Environment),
            url => url.parse().map(Self::Url).map_err(|_| D::Error::custom(EXPECTED)),
        }
    }
}

/// Certificates of a PEM file: roots, and self-signed certificates of servers.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct TrustedCertificates {
    /// Empty: there is none.
    path: PathBuf,
    certificates: Vec<CertificateDer<'static>>,
}

impl TrustedCertificates {
    /// Reads the file at `path`. The error is a sentence.
    fn read(path: &Path) -> Result<Self, String> {
        let pem = std::fs::read(path).map_err(|error| format!("cannot read the file: {error}"))?;
        let parsed = CertificateDer::pem_slice_iter(&pem).collect::<Result<Vec<_>, _>>();
        let certificates = parsed.map_err(|error| format!("the file is no PEM file: {error}"))?;
        if certificates.is_empty() {
            return Err("the file has no certificate (-----BEGIN CERTIFICATE-----)".into());
        }
        for (index, certificate) in certificates.iter().enumerate() {
            let number = index.saturating_add(1);
            let added = RootCertStore::empty().add(certificate.clone());
            added.map_err(|_| format!("certificate {number} of the file cannot be parsed"))?;
        }
        Ok(Self { path: path.to_owned(), certificates })
    }

    /// Returns the certificates in the order of the file.
    pub(crate) fn certificates(&self) -> &[CertificateDer<'static>] {
        &self.certificates
    }
}

impl fmt::Debug for TrustedCertificates {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} certificates of {}", self.certificates.len(), self.path.display())
    }
}

impl<'de> Deserialize<'de> for TrustedCertificates {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        match String::deserialize(input)?.as_str() {
            "" => Ok(Self::default()),
            path => Self::read(Path::new(path)).map_err(D::Error::custom),
        }
    }
}

impl Serialize for TrustedCertificates {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        self.path.serialize(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::tests::Directory;

    fn parse(toml: &str) -> Result<Upstream, String> {
        toml_edit::de::from_str(toml).map_err(|error| error.message().to_owned())
    }

    #[test]
    fn a_proxy_is_off_the_environments_or_a_url() {
        assert_eq!(parse("").unwrap(), Upstream::default());
        for (text, expected) in
            [("off", ForwardProxy::Off), ("environment", ForwardProxy::Environment)]
        {
            assert_eq!(parse(&format!("proxy = \"{text}\"")).unwrap().proxy, expected);
        }
        let upstream = parse("proxy = \"http://user:c4n4ry@proxy.example:3128\"").unwrap();
        assert!(!format!("{upstream:?}").contains("c4n4ry"));
        assert_eq!(serde_json::to_value(&upstream.proxy).unwrap(), "http://proxy.example:3128/…");
        assert!(upstream.secrets().iter().any(|secret| secret == "c4n4ry"));
        for wrong in ["on", "", "socks5://c4n4ry", "c4n4ry:3128"] {
            let error = parse(&format!("proxy = \"{wrong}\"")).unwrap_err();
            assert!(error.contains("\"environment\"") && !error.contains("c4n4ry"), "{error}");
        }
    }

    #[test]
    fn a_file_without_certificates_is_refused() {
        let directory = Directory::new("ca");
        let error_of = |text: &str| {
            parse(&format!("ca_file = {:?}", directory.write("ca.pem", text))).unwrap_err()
        };
        assert!(error_of("").contains("no certificate"));
        let begin = "-----BEGIN CERTIFICATE-----\n";
        assert!(
            error_of(&format!("{begin}AA==\n-----END CERTIFICATE-----\n"))
                .contains("certificate 1")
        );
        assert!(error_of(&format!("{begin}AA==")).contains("no PEM file"));
        let error = parse("ca_file = \"/absent/ca.pem\"").unwrap_err();
        assert!(error.contains("cannot read the file"), "{error}");
        assert_eq!(parse("ca_file = \"\"").unwrap(), Upstream::default());
    }
}
