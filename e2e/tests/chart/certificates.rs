//! The Certificates of the release: the data of their Secrets, the served certificates, and the
//! authorities that the API server trusts.

pub(super) mod cert_manager;
pub(super) mod served;

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::core::v1::{Pod, Secret};
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::{Api, ResourceExt as _};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::{Value, json};
use trellis_api::visibility::API_SERVICE;
use trellis_e2e::operator::NAMESPACE;
use trellis_e2e::wait::eventually;

use crate::real_cluster::{ChartCluster, READY_TIMEOUT};

/// The certificate of the authority.
pub(crate) const AUTHORITY_NAME: &str = "trellis-ca";
const WEBHOOK: &str = "trellis-webhook";
const ENDPOINT: &str = "trellis-endpoint";

/// A certificate that the authority signs.
pub(crate) struct SignedCertificate {
    pub(crate) name: &'static str,
    /// The port at which operators serve the certificate.
    port: u16,
    /// The Services of the port.
    service_names: &'static [&'static str],
}

pub(crate) const SIGNED_CERTIFICATES: [SignedCertificate; 2] = [
    SignedCertificate {
        name: WEBHOOK,
        port: 9443,
        service_names: &["trellis-webhook"],
    },
    SignedCertificate {
        name: ENDPOINT,
        port: 8443,
        service_names: &["trellis-visibility", "trellis-operator"],
    },
];

/// Returns the certificates of the release on these nodes.
pub(crate) struct ReleaseCertificates<'a> {
    nodes: &'a ChartCluster,
    api: Api<DynamicObject>,
    secrets: Api<Secret>,
    webhooks: Api<ValidatingWebhookConfiguration>,
    groups: Api<APIService>,
}

impl<'a> ReleaseCertificates<'a> {
    pub(crate) fn for_release(nodes: &'a ChartCluster) -> Self {
        let client = nodes.control_plane.client();
        let kind = GroupVersionKind::gvk("cert-manager.io", "v1", "Certificate");
        let kind = ApiResource::from_gvk(&kind);
        Self {
            nodes,
            api: Api::namespaced_with(client.clone(), NAMESPACE, &kind),
            secrets: Api::namespaced(client.clone(), NAMESPACE),
            webhooks: Api::all(client.clone()),
            groups: Api::all(client),
        }
    }

    /// Returns the data of the Secret of this certificate.
    pub(crate) async fn read_secret(&self, name: &str) -> Result<SecretData> {
        let data = self.secrets.get(&secret_name(name)).await?.data;
        Ok(SecretData(data.unwrap_or_default()))
    }

    /// Waits until cert-manager reports the certificates as ready.
    pub(crate) async fn check_ready(&self) -> Result<()> {
        for name in [AUTHORITY_NAME, WEBHOOK, ENDPOINT] {
            let certificate = self.api.get(name).await?;
            let conditions = certificate.data["status"]["conditions"].as_array();
            let is_ready = |c: &Value| c["type"] == "Ready" && c["status"] == "True";
            let is_ready = conditions.into_iter().flatten().any(is_ready);
            ensure!(is_ready, "{name}: {}", certificate.data["status"]);
        }
        Ok(())
    }

    /// Waits until the API server trusts the authority of the certificates.
    pub(crate) async fn check_trusted(&self) -> Result<()> {
        for SignedCertificate { name, .. } in SIGNED_CERTIFICATES {
            let signed_by = self.read_secret(name).await?.certificate("ca.crt")?;
            let authorities = self.trusted_authorities(name).await?;
            let is_told = authorities
                .iter()
                .all(|trusted| trusted.contains(&signed_by));
            ensure!(is_told, "the API server does not trust {name}");
        }
        Ok(())
    }

    /// Waits until the API server also trusts exactly `count` authorities.
    pub(crate) async fn check_authority_count(&self, count: usize) -> Result<()> {
        self.check_trusted().await?;
        for SignedCertificate { name, .. } in SIGNED_CERTIFICATES {
            let authorities = self.trusted_authorities(name).await?;
            let has_count = authorities.iter().all(|trusted| trusted.len() == count);
            ensure!(
                has_count,
                "for {name} the API server trusts {authorities:?}"
            );
        }
        Ok(())
    }

    /// Each `caBundle` separately.
    async fn trusted_authorities(&self, name: &str) -> Result<Vec<Vec<CertificateDer<'static>>>> {
        let bundles: Vec<Option<ByteString>> = match name {
            ENDPOINT => {
                let group = self.groups.get(API_SERVICE).await?;
                group.spec.map(|spec| spec.ca_bundle).into_iter().collect()
            }
            name => {
                let webhooks = self.webhooks.get(name).await?.webhooks;
                let webhooks = webhooks.into_iter().flatten();
                webhooks.map(|w| w.client_config.ca_bundle).collect()
            }
        };
        let read = |bundle: Option<ByteString>| {
            let bundle = bundle.with_context(|| format!("{name} has no CA bundle"))?;
            let all = CertificateDer::pem_slice_iter(&bundle.0);
            Ok(all.collect::<Result<Vec<_>, _>>()?)
        };
        bundles.into_iter().map(read).collect()
    }

    /// Waits until each operator serves the certificates of the Secrets, and the API server trusts
    /// them.
    pub(crate) async fn wait_until_served(&self) -> Result<()> {
        eventually(READY_TIMEOUT, || async {
            self.check_trusted().await?;
            for signed in SIGNED_CERTIFICATES {
                let secret = self.read_secret(signed.name).await?;
                for pod in self.nodes.operator_pods().await? {
                    self.check_served(&signed, &secret, &pod)?;
                }
            }
            Ok(())
        })
        .await
    }

    fn check_served(
        &self,
        signed: &SignedCertificate,
        secret: &SecretData,
        pod: &Pod,
    ) -> Result<()> {
        for service in signed.service_names {
            let name = format!("{service}.{NAMESPACE}.svc");
            let connection = self.nodes.connect_to_pod(pod, signed.port)?;
            let served =
                served::read_served_certificate(connection, &name, &secret.get("ca.crt")?.0)?;
            let is_served = served == secret.certificate("tls.crt")?;
            ensure!(
                is_served,
                "{} shows another {}",
                pod.name_any(),
                signed.name
            );
        }
        Ok(())
    }

    /// Renews a certificate like `cmctl renew`. Returns the old and the new data of its Secret.
    pub(crate) async fn renew_certificate(&self, name: &str) -> Result<(SecretData, SecretData)> {
        let before = self.read_secret(name).await?;
        let condition = json!({"type": "Issuing", "status": "True",
            "reason": "ManuallyTriggered", "message": "by a test",
            "lastTransitionTime": jiff::Timestamp::now()});
        let operation = json!([{"op": "add", "path": "/status/conditions/-", "value": condition}]);
        let patch = Patch::<()>::Json(serde_json::from_value(operation)?);
        self.api
            .patch_status(name, &PatchParams::default(), &patch)
            .await?;
        let after = self.wait_for_new_secret(name, &before).await?;
        Ok((before, after))
    }

    /// Deletes the Secret of a certificate. Returns the old and the new data of the Secret.
    pub(crate) async fn delete_secret(&self, name: &str) -> Result<(SecretData, SecretData)> {
        let before = self.read_secret(name).await?;
        self.secrets
            .delete(&secret_name(name), &DeleteParams::default())
            .await?;
        let after = self.wait_for_new_secret(name, &before).await?;
        Ok((before, after))
    }

    /// Waits until the Secret contains a new certificate.
    async fn wait_for_new_secret(&self, name: &str, before: &SecretData) -> Result<SecretData> {
        eventually(READY_TIMEOUT, || async {
            let now = self.read_secret(name).await?;
            let is_another = now.get("tls.crt")? != before.get("tls.crt")?;
            ensure!(is_another, "{name} is unchanged");
            self.check_ready().await?;
            Ok(now)
        })
        .await
    }
}

fn secret_name(name: &str) -> String {
    match name {
        AUTHORITY_NAME => AUTHORITY_NAME.to_owned(),
        name => format!("{name}-tls"),
    }
}

/// Returns the data of a Secret.
pub(crate) struct SecretData(BTreeMap<String, ByteString>);

impl SecretData {
    pub(crate) fn get(&self, key: &str) -> Result<&ByteString> {
        self.0.get(key).with_context(|| format!("no {key}"))
    }

    fn certificate(&self, key: &str) -> Result<CertificateDer<'static>> {
        Ok(CertificateDer::from_pem_slice(&self.get(key)?.0)?)
    }
}
