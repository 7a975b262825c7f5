//! Selects the cluster in the same way as kubectl.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::Duration;

use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};

/// Options that select the cluster and the user.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct KubeconfigOptions {
    /// The kubeconfig file.
    /// Default: the existing files of $KUBECONFIG, else ~/.kube/config.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig. Default: the current context.
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// Timeout of one request (5s, 2m; 0: no timeout).
    #[arg(long, value_name = "TIME", value_parser = parse_request_timeout)]
    request_timeout: Option<Duration>,
    /// Set only through [`ClusterOptions`].
    #[arg(skip)]
    cluster: Option<String>,
    #[arg(skip)]
    user: Option<String>,
    #[arg(skip)]
    as_user: Option<String>,
    #[arg(skip)]
    as_group: Vec<String>,
}

/// The same options and the rest of kubectl's options to select a cluster.
/// For commands that use `--cluster` and `--as` for no other purpose.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct ClusterOptions {
    #[command(flatten)]
    kubeconfig: KubeconfigOptions,
    /// The cluster of the kubeconfig. Default: the cluster of the context.
    #[arg(long, value_name = "NAME")]
    cluster: Option<String>,
    /// The user of the kubeconfig. Default: the user of the context.
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// Impersonate this user. Needs the right to impersonate.
    #[arg(long = "as", value_name = "USER")]
    as_user: Option<String>,
    /// Impersonate this group. May be given several times.
    #[arg(long, value_name = "GROUP", requires = "as_user")]
    as_group: Vec<String>,
}

impl ClusterOptions {
    /// Converts the options to [`KubeconfigOptions`].
    #[must_use]
    pub fn to_kubeconfig_options(&self) -> KubeconfigOptions {
        KubeconfigOptions {
            cluster: self.cluster.clone(),
            user: self.user.clone(),
            as_user: self.as_user.clone(),
            as_group: self.as_group.clone(),
            ..self.kubeconfig.clone()
        }
    }
}

impl KubeconfigOptions {
    /// Returns true if at least one option is set.
    #[must_use]
    pub fn is_set(&self) -> bool {
        let chosen = [&self.context, &self.as_user, &self.cluster, &self.user];
        self.kubeconfig.is_some()
            || self.request_timeout.is_some()
            || !self.as_group.is_empty()
            || chosen.iter().any(|option| option.is_some())
    }

    /// Loads the kubeconfig.
    /// Without a kubeconfig, it loads the configuration of the pod that runs this program.
    ///
    /// # Errors
    /// If neither exists, or the kubeconfig is invalid. An invalid kubeconfig is always an error.
    /// The command then uses no other cluster.
    pub async fn load_config(&self) -> Result<Config, KubeconfigError> {
        let options = KubeConfigOptions {
            context: self.context.clone(),
            cluster: self.cluster.clone(),
            user: self.user.clone(),
        };
        let chooses = self.context.is_some() || self.cluster.is_some() || self.user.is_some();
        let mut config = match self.read_kubeconfig() {
            Ok(kubeconfig) => Config::from_custom_kubeconfig(kubeconfig, &options).await?,
            Err(KubeconfigFailure::Missing(error)) if !chooses => {
                Config::incluster().map_err(|_| error)?
            }
            Err(KubeconfigFailure::Missing(error) | KubeconfigFailure::Unusable(error)) => {
                return Err(error);
            }
        };
        if self.as_user.is_some() {
            config.auth_info.impersonate.clone_from(&self.as_user);
        }
        if !self.as_group.is_empty() {
            config.auth_info.impersonate_groups = Some(self.as_group.clone());
        }
        Ok(config)
    }

    /// The name of the context.
    /// None: the configuration of the pod applies, which has none.
    #[must_use]
    pub fn context_name(&self) -> Option<String> {
        let named = self.context.clone();
        named.or_else(|| self.read_kubeconfig().ok()?.current_context)
    }

    /// The timeout of one request, if the option is given.
    /// Some(None): no timeout.
    pub(super) fn request_timeout(&self) -> Option<Option<Duration>> {
        let timeout = self.request_timeout;
        timeout.map(|time| Some(time).filter(|time| !time.is_zero()))
    }

    fn read_kubeconfig(&self) -> Result<Kubeconfig, KubeconfigFailure> {
        if let Some(file) = &self.kubeconfig {
            return Kubeconfig::read_from(file).map_err(KubeconfigFailure::Unusable);
        }
        let named = std::env::var_os("KUBECONFIG").unwrap_or_default();
        let files = std::env::split_paths(&named).filter(|file| !file.as_os_str().is_empty());
        match merge_kubeconfigs(files) {
            Ok(Some(kubeconfig)) => Ok(kubeconfig),
            // $KUBECONFIG names no file, so the file in the home directory applies.
            Ok(None) => Kubeconfig::read().map_err(KubeconfigFailure::from_default_file),
            Err(error) => Err(KubeconfigFailure::Unusable(error)),
        }
    }
}

/// Merges these files; earlier files win.
/// As in kubectl, a missing file is skipped. If all files are missing, that is an error, because
/// the user named them. None: no file is named.
fn merge_kubeconfigs(
    files: impl Iterator<Item = PathBuf>,
) -> Result<Option<Kubeconfig>, KubeconfigError> {
    let mut all = None;
    let mut missing = None;
    for file in files {
        match Kubeconfig::read_from(file) {
            Ok(next) => all = Some(all.unwrap_or_else(Kubeconfig::default).merge(next)?),
            Err(KubeconfigError::ReadConfig(error, file))
                if error.kind() == ErrorKind::NotFound =>
            {
                missing.get_or_insert(KubeconfigError::ReadConfig(error, file));
            }
            Err(error) => return Err(error),
        }
    }
    match (all, missing) {
        (None, Some(missing)) => Err(missing),
        (all, _) => Ok(all),
    }
}

/// Reason why no kubeconfig could be loaded.
#[derive(Debug)]
enum KubeconfigFailure {
    /// The file does not exist.
    Missing(KubeconfigError),
    /// The file exists but is invalid.
    Unusable(KubeconfigError),
}

impl KubeconfigFailure {
    /// Classifies an error of the default file, which applies if no file is named.
    fn from_default_file(error: KubeconfigError) -> Self {
        let exists = match &error {
            KubeconfigError::FindPath => false,
            // NotADirectory occurs for users without a home directory, such as `nobody`.
            KubeconfigError::ReadConfig(error, _) => {
                !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
            }
            _ => true,
        };
        match exists {
            true => Self::Unusable(error),
            false => Self::Missing(error),
        }
    }
}

/// Parses the value like kubectl's `--request-timeout`.
/// 0 is no timeout, and a bare number is seconds.
fn parse_request_timeout(written: &str) -> Result<Duration, String> {
    match written.parse() {
        Ok(seconds) => Ok(Duration::from_secs(seconds)),
        Err(_) => crate::wait_options::parse_duration(written),
    }
}

#[cfg(test)]
mod tests;
