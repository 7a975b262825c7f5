//! Access to a control plane: clients, kubeconfigs and kubectl.

use std::os::unix::fs::symlink;
use std::{path::Path, path::PathBuf, process::Output, process::Stdio};

use anyhow::{Context as _, Result, bail};
use k8s_openapi::api::{
    authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec},
    core::v1::ServiceAccount,
};
use kube::{Api, Client, Config, api::PostParams};
use serde_json::{Value, json};
use tokio::{io::AsyncWriteExt as _, process::Command};

use super::{ControlPlane, KubeconfigWriter, credentials::TokenUser};
use crate::binaries::Executable;

impl ControlPlane {
    /// Creates a client with all rights and without kube's own retries. The client belongs to the
    /// current runtime, so tests cannot share one: it would end with the runtime of the first test.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    pub fn client(&self) -> Client {
        Client::try_from(self.client_config())
            .expect("the configuration worked at the start of the control plane")
    }

    /// Returns the configuration of [`ControlPlane::client`], for callers that change it (timeouts,
    /// user agent).
    pub fn client_config(&self) -> Config {
        self.client_config_for(&self.url(), TokenUser::Admin)
            .expect("the address and the token are valid")
    }

    /// Creates a client with other credentials: the `user` of a kubeconfig, such as `{"token":
    /// ...}`.
    ///
    /// # Errors
    ///
    /// When `user` is not the `user` of a kubeconfig.
    pub fn client_as(&self, user: Value) -> Result<Client> {
        let mut config = self.client_config();
        config.auth_info = serde_json::from_value(user)?;
        Ok(Client::try_from(config)?)
    }

    /// Creates a client that impersonates `user` in `groups`, with the rights that RBAC grants
    /// them.
    ///
    /// # Errors
    ///
    /// If the configuration is invalid, which is a bug here.
    pub fn client_for_user(&self, user: &str, groups: &[&str]) -> Result<Client> {
        self.client_as(self.impersonating_user(user, groups))
    }

    /// Creates a client with the rights of a ServiceAccount.
    ///
    /// # Errors
    ///
    /// When the ServiceAccount does not exist.
    pub async fn service_account_client(&self, namespace: &str, name: &str) -> Result<Client> {
        let token = self.service_account_token(namespace, name).await?;
        self.client_as(json!({"token": token}))
    }

    /// Returns the token of a user with all rights.
    pub fn admin_token(&self) -> &str {
        self.credentials.token(TokenUser::Admin)
    }

    /// Requests a token of a ServiceAccount from the TokenRequest API. It is valid for a day.
    ///
    /// # Errors
    ///
    /// When the ServiceAccount does not exist.
    pub async fn service_account_token(&self, namespace: &str, name: &str) -> Result<String> {
        self.request_token(namespace, name, None).await
    }

    /// Requests a token of a ServiceAccount, bound to one of its pods. It is valid for a day, or
    /// until the pod is deleted.
    ///
    /// # Errors
    ///
    /// When the ServiceAccount or the pod does not exist.
    pub async fn pod_token(&self, namespace: &str, account: &str, pod: &str) -> Result<String> {
        let pod = BoundObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Pod".to_owned()),
            name: Some(pod.to_owned()),
            uid: None,
        };
        self.request_token(namespace, account, Some(pod)).await
    }

    async fn request_token(
        &self,
        namespace: &str,
        name: &str,
        bound_object_ref: Option<BoundObjectReference>,
    ) -> Result<String> {
        let api: Api<ServiceAccount> = Api::namespaced(self.client(), namespace);
        let request = TokenRequest {
            spec: Some(TokenRequestSpec {
                expiration_seconds: Some(24 * 3600),
                bound_object_ref,
                ..TokenRequestSpec::default()
            }),
            ..TokenRequest::default()
        };
        let answer = api
            .create_token_request(name, &PostParams::default(), &request)
            .await
            .with_context(|| format!("token of ServiceAccount {namespace}/{name}"))?;
        answer
            .status
            .and_then(|status| status.token)
            .context("the API server answered a TokenRequest without a token")
    }

    /// Returns the path of the kubeconfig of a user with all rights.
    pub fn kubeconfig(&self) -> PathBuf {
        self.folder().join("kubeconfigs/admin.yaml")
    }

    /// Returns a shell line that puts the `kubectl` of this control plane's version, and these
    /// programs under these names, on the PATH. The folder is deleted with the control plane.
    ///
    /// # Errors
    ///
    /// When the folder for them cannot be created.
    pub fn shell_path_line(&self, programs: &[(&str, &Path)]) -> Result<String> {
        let folder = self.folder().join("tools");
        std::fs::create_dir_all(&folder)?;
        let kubectl = self.binaries().path(Executable::Kubectl);
        for (name, program) in programs.iter().copied().chain([("kubectl", kubectl)]) {
            symlink(program, folder.join(name))?;
        }
        Ok(format!("export PATH={}:$PATH", folder.display()))
    }

    /// Writes a kubeconfig for a token. `name` names the file.
    ///
    /// # Errors
    ///
    /// When it cannot be written.
    pub fn kubeconfig_for_token(&self, name: &str, token: &str) -> Result<PathBuf> {
        self.kubeconfig_writer()
            .write(name, &self.url(), &json!({"token": token}))
    }

    /// Writes a kubeconfig that impersonates `user` in `groups`.
    ///
    /// # Errors
    ///
    /// When it cannot be written.
    pub fn kubeconfig_for_user(&self, user: &str, groups: &[&str]) -> Result<PathBuf> {
        self.kubeconfig_for_user_at(&self.url(), user, groups)
    }

    /// [`ControlPlane::kubeconfig_for_user`] for clients that reach the API server at `server`.
    pub(crate) fn kubeconfig_for_user_at(
        &self,
        server: &str,
        user: &str,
        groups: &[&str],
    ) -> Result<PathBuf> {
        let name = format!("user-{user}");
        self.kubeconfig_writer()
            .write(&name, server, &self.impersonating_user(user, groups))
    }

    /// Writes a kubeconfig with the rights of a ServiceAccount, as the operator uses it.
    ///
    /// # Errors
    ///
    /// When the ServiceAccount does not exist.
    pub async fn service_account_kubeconfig(&self, namespace: &str, name: &str) -> Result<PathBuf> {
        let token = self.service_account_token(namespace, name).await?;
        self.kubeconfig_for_token(&format!("{namespace}-{name}"), &token)
    }

    pub(crate) fn kubeconfig_writer(&self) -> KubeconfigWriter {
        self.credentials.kubeconfig_writer()
    }

    /// Runs kubectl as a user with all rights.
    ///
    /// # Errors
    ///
    /// When kubectl cannot be started. A failure of kubectl itself is in the output.
    pub async fn kubectl(&self, arguments: &[&str]) -> Result<Output> {
        self.kubectl_with(arguments, "").await
    }

    /// Runs kubectl with this text on its standard input (`-f -`).
    ///
    /// # Errors
    ///
    /// When kubectl cannot be started.
    pub async fn kubectl_with(&self, arguments: &[&str], input: &str) -> Result<Output> {
        let mut child = Command::new(self.binaries().path(Executable::Kubectl))
            .args(arguments)
            .env("KUBECONFIG", self.kubeconfig())
            .env("KUBECACHEDIR", self.folder().join("kubectl"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("start kubectl")?;
        let mut stdin = child.stdin.take().context("kubectl has no stdin")?;
        let feed = async move {
            // kubectl may close its input without reading it. Its output has the reason.
            let _ = stdin.write_all(input.as_bytes()).await;
            drop(stdin);
        };
        let (output, ()) = tokio::join!(child.wait_with_output(), feed);
        Ok(output?)
    }

    /// Runs kubectl and returns its output.
    ///
    /// # Errors
    ///
    /// When kubectl fails; the error has its output.
    pub async fn kubectl_ok(&self, arguments: &[&str]) -> Result<String> {
        let output = self.kubectl(arguments).await?;
        if !output.status.success() {
            bail!(
                "kubectl {}: {}",
                arguments.join(" "),
                String::from_utf8_lossy(&output.stderr).trim_end()
            );
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn impersonating_user(&self, user: &str, groups: &[&str]) -> Value {
        json!({"token": self.admin_token(), "as": user, "as-groups": groups})
    }
}
