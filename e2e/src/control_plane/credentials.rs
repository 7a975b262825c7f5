//! Keys, certificates, tokens and kubeconfigs of one control plane.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::Result;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose,
};

use super::SERVICE_ADDRESS;
use super::folder::write_secret;
use super::front_proxy;
use super::kubeconfig::KubeconfigWriter;

/// A user that the API server knows by a static token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TokenUser {
    /// The tests, with all rights.
    Admin,
    /// kube-controller-manager, with the rights that RBAC grants its user.
    ControllerManager,
    /// kwok, with all rights, because it acts as every kubelet.
    Kwok,
}

impl TokenUser {
    const ALL: [Self; 3] = [Self::Admin, Self::ControllerManager, Self::Kwok];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Admin => "admin",
            Self::ControllerManager => "kube-controller-manager",
            Self::Kwok => "kwok",
        }
    }

    /// Returns a line of the token file: `token,user,uid,"groups"`.
    fn token_line(self, token: &str) -> String {
        match self {
            Self::Admin => format!("{token},admin,admin,\"system:masters\"\n"),
            Self::ControllerManager => format!("{token},system:kube-controller-manager,kcm,\n"),
            Self::Kwok => format!("{token},kwok,kwok,\"system:masters\"\n"),
        }
    }
}

/// The keys, certificates and tokens, as files in `<folder>/pki` and as text.
#[derive(Debug)]
pub(super) struct Credentials {
    folder: PathBuf,
    /// The certificate authority, in DER.
    pub(super) ca: Vec<u8>,
    tokens: Vec<(TokenUser, String)>,
}

impl Credentials {
    /// Creates credentials in `<folder>/pki`.
    pub(super) fn create(folder: &Path) -> Result<Self> {
        let pki = folder.join("pki");
        fs::create_dir_all(&pki)?;
        fs::create_dir_all(folder.join("kubeconfigs"))?;

        let mut params = CertificateParams::default();
        params
            .distinguished_name
            .push(DnType::CommonName, "trellis-e2e");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![
            KeyUsagePurpose::KeyCertSign,
            KeyUsagePurpose::DigitalSignature,
        ];
        let ca = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
        write_secret(&pki.join("ca.crt"), &ca.pem())?;

        let names = [
            "127.0.0.1",
            "localhost",
            "kubernetes",
            "kubernetes.default.svc",
            SERVICE_ADDRESS,
        ];
        let mut params = CertificateParams::new(names.map(String::from).to_vec())?;
        params
            .distinguished_name
            .push(DnType::CommonName, "kube-apiserver");
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &ca)?;
        write_secret(&pki.join("server.crt"), &certificate.pem())?;
        write_secret(&pki.join("server.key"), &key.serialize_pem())?;
        let key = KeyPair::generate()?;
        write_secret(&pki.join("service-accounts.key"), &key.serialize_pem())?;
        write_secret(&pki.join("service-accounts.pub"), &key.public_key_pem())?;

        front_proxy::write_certificates(&pki)?;

        let mut tokens = Vec::new();
        let mut file = String::new();
        for identity in TokenUser::ALL {
            let token = random_token()?;
            file.push_str(&identity.token_line(&token));
            tokens.push((identity, token));
        }
        write_secret(&pki.join("tokens.csv"), &file)?;
        Ok(Self {
            folder: folder.to_owned(),
            ca: ca.der().to_vec(),
            tokens,
        })
    }

    /// Returns the path of a file in `pki`.
    pub(super) fn file_path(&self, name: &str) -> String {
        self.folder.join("pki").join(name).display().to_string()
    }

    pub(super) fn token(&self, identity: TokenUser) -> &str {
        self.tokens
            .iter()
            .find(|(known, _)| *known == identity)
            .map_or("", |(_, token)| token)
    }

    pub(super) fn kubeconfig_writer(&self) -> KubeconfigWriter {
        KubeconfigWriter::new(&self.folder)
    }
}

fn random_token() -> Result<String> {
    use sha2::{Digest as _, Sha256};
    // A new private key is a source of randomness that needs no other dependency.
    let key = KeyPair::generate()?.serialize_der();
    Ok(Sha256::digest(key)
        .iter()
        .take(16)
        .map(|byte| format!("{byte:02x}"))
        .collect())
}
