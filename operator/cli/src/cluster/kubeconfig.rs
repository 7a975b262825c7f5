//! Which cluster, as kubectl has it.

use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::Duration;

use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};

/// Which cluster, and who asks it.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct KubeconfigOptions {
    /// The kubeconfig file. Without it, those of $KUBECONFIG that are there, else ~/.kube/config.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig. Without it, its current one.
    #[arg(long, value_name = "NAME")]
    context: Option<String>,
    /// How long one question may take (5s, 2m; 0: as long as it takes).
    #[arg(long, value_name = "TIME", value_parser = parse_request_timeout)]
    request_timeout: Option<Duration>,
    /// What only [`ClusterOptions`] has options for.
    #[arg(skip)]
    cluster: Option<String>,
    #[arg(skip)]
    user: Option<String>,
    #[arg(skip)]
    as_user: Option<String>,
    #[arg(skip)]
    as_group: Vec<String>,
}

/// The same with all that kubectl has to choose by, for commands of which no `--cluster` or `--as`
/// means another thing.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct ClusterOptions {
    #[command(flatten)]
    kubeconfig: KubeconfigOptions,
    /// The cluster of the kubeconfig. Without it, that of the context.
    #[arg(long, value_name = "NAME")]
    cluster: Option<String>,
    /// The user of the kubeconfig. Without it, that of the context.
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// Ask as this user, which takes the right to impersonate.
    #[arg(long = "as", value_name = "USER")]
    as_user: Option<String>,
    /// Ask as one of this group; may be given several times.
    #[arg(long, value_name = "GROUP", requires = "as_user")]
    as_group: Vec<String>,
}

impl ClusterOptions {
    /// Which cluster, and who asks it.
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
    /// True if it says anything.
    #[must_use]
    pub fn is_set(&self) -> bool {
        let chosen = [&self.context, &self.as_user, &self.cluster, &self.user];
        self.kubeconfig.is_some()
            || self.request_timeout.is_some()
            || !self.as_group.is_empty()
            || chosen.iter().any(|of| of.is_some())
    }

    /// The kubeconfig's cluster; where there is no kubeconfig at all, that of the pod that we run
    /// in.
    ///
    /// # Errors
    /// If there is neither, or the kubeconfig is of no use: what somebody has written is never
    /// passed over for another cluster.
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

    /// How long a question may take, where that is said. Some(None): as long as it takes.
    pub(super) fn request_timeout(&self) -> Option<Option<Duration>> {
        let given = self.request_timeout;
        given.map(|time| Some(time).filter(|time| !time.is_zero()))
    }

    fn read_kubeconfig(&self) -> Result<Kubeconfig, KubeconfigFailure> {
        if let Some(file) = &self.kubeconfig {
            return Kubeconfig::read_from(file).map_err(KubeconfigFailure::Unusable);
        }
        let named = std::env::var_os("KUBECONFIG").unwrap_or_default();
        let files = std::env::split_paths(&named).filter(|file| !file.as_os_str().is_empty());
        match merge_kubeconfigs(files) {
            Ok(Some(kubeconfig)) => Ok(kubeconfig),
            // $KUBECONFIG names no file: it is that of the home directory.
            Ok(None) => Kubeconfig::read().map_err(KubeconfigFailure::from_default_file),
            Err(error) => Err(KubeconfigFailure::Unusable(error)),
        }
    }
}

/// What these files say together, the first first. As kubectl does it, one that is not there is
/// passed over; but if none is, that is an error: somebody has meant them. None: no file is named.
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

/// That no kubeconfig is to be had.
#[derive(Debug)]
enum KubeconfigFailure {
    /// There is none.
    Missing(KubeconfigError),
    /// There is one, of no use.
    Unusable(KubeconfigError),
}

impl KubeconfigFailure {
    /// Of the one that everybody has where none is named.
    fn from_default_file(error: KubeconfigError) -> Self {
        let is_there = match &error {
            KubeconfigError::FindPath => false,
            // Also where the home directory is none, as that of `nobody`.
            KubeconfigError::ReadConfig(error, _) => {
                !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
            }
            _ => true,
        };
        match is_there {
            true => Self::Unusable(error),
            false => Self::Missing(error),
        }
    }
}

/// As kubectl's `--request-timeout`: 0 is none, a bare number is seconds.
fn parse_request_timeout(written: &str) -> Result<Duration, String> {
    match written.parse() {
        Ok(seconds) => Ok(Duration::from_secs(seconds)),
        Err(_) => crate::wait_options::parse_duration(written),
    }
}

#[cfg(test)]
mod tests;
