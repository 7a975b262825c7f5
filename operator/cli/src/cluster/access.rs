//! Which cluster, as kubectl has it.

use std::path::PathBuf;

use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};

/// Which cluster, and who asks it.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct Access {
    /// The kubeconfig file. Without it, $KUBECONFIG, else ~/.kube/config.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig. Without it, its current one.
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
}

impl Access {
    /// True if it says anything.
    #[must_use]
    pub fn is_given(&self) -> bool {
        self.kubeconfig.is_some() || self.context.is_some()
    }

    /// The kubeconfig's cluster; where there is no kubeconfig, that of the pod that we run in.
    ///
    /// # Errors
    /// If there is neither, or the kubeconfig is of no use.
    pub async fn config(&self) -> Result<Config, KubeconfigError> {
        let options = KubeConfigOptions {
            context: self.context.clone(),
            ..KubeConfigOptions::default()
        };
        if let Some(file) = &self.kubeconfig {
            let kubeconfig = Kubeconfig::read_from(file)?;
            return Config::from_custom_kubeconfig(kubeconfig, &options).await;
        }
        match Config::from_kubeconfig(&options).await {
            Err(error) if self.context.is_none() => Config::incluster().map_err(|_| error),
            config => config,
        }
    }
}
