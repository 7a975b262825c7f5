//! The version of Kubernetes that the tests run on.

use std::{env, sync::LazyLock};

use anyhow::{Result, bail};

/// Chooses the version of Kubernetes that tests, demo and benchmarks run on: 1.33, 1.35 or 1.37.
/// Without: 1.37.
const VARIABLE: &str = "TRELLIS_KUBERNETES";

/// A version of Kubernetes that the tests can build and run on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KubernetesVersion {
    /// 1.33, the oldest version that Trellis supports.
    V1_33,
    /// 1.35, the newest version without MutatingAdmissionPolicy in `v1`.
    V1_35,
    /// 1.37, the version that the whole suite runs on.
    V1_37,
}

/// The properties of one version.
struct VersionRow {
    /// Major and minor version.
    name: &'static str,
    /// The version that the programs report.
    release: &'static str,
    /// The folder of the Go module.
    module: &'static str,
    /// API version of MutatingAdmissionPolicy.
    mutating_policy_api: &'static str,
}

impl KubernetesVersion {
    /// All versions, the oldest first.
    pub(super) const ALL: [Self; 3] = [Self::V1_33, Self::V1_35, Self::V1_37];

    /// The version without the variable. The programs of an older control plane that are not the
    /// API server or the controller manager have this version, too.
    pub const DEFAULT: Self = Self::V1_37;

    const fn row(self) -> VersionRow {
        match self {
            Self::V1_33 => VersionRow {
                name: "1.33",
                release: "v1.33.13",
                module: "kubernetes-1.33",
                mutating_policy_api: "v1alpha1",
            },
            Self::V1_35 => VersionRow {
                name: "1.35",
                release: "v1.35.4",
                module: "kubernetes-1.35",
                mutating_policy_api: "v1beta1",
            },
            Self::V1_37 => VersionRow {
                name: "1.37",
                release: "v1.37.1",
                module: "kubernetes",
                mutating_policy_api: "v1",
            },
        }
    }

    /// Returns the version in the environment variable `TRELLIS_KUBERNETES`.
    ///
    /// # Errors
    ///
    /// When the variable has another value than the name of a version.
    pub fn chosen() -> Result<Self> {
        static CHOSEN: LazyLock<Result<KubernetesVersion, String>> = LazyLock::new(|| {
            let value = env::var(VARIABLE).unwrap_or_default();
            KubernetesVersion::parse(&value).map_err(|error| error.to_string())
        });
        CHOSEN.clone().map_err(anyhow::Error::msg)
    }

    /// Returns why a test that needs `what` of the default version cannot run on the chosen version.
    /// None: it can. Every test that an older version cannot run is ignored with this reason.
    #[must_use]
    pub fn reason_to_skip(what: &str) -> Option<String> {
        // A wrong value of the variable is an error of the control plane's start.
        let chosen = Self::chosen().unwrap_or(Self::DEFAULT);
        (chosen != Self::DEFAULT).then(|| {
            let (needed, chosen) = (Self::DEFAULT.name(), chosen.name());
            format!("needs {what} of Kubernetes {needed}; {VARIABLE} is {chosen}")
        })
    }

    fn parse(value: &str) -> Result<Self> {
        if value.is_empty() {
            return Ok(Self::DEFAULT);
        }
        let mut all = Self::ALL.into_iter();
        let Some(version) = all.find(|version| version.name() == value) else {
            let names = Self::ALL.map(Self::name).join(", ");
            bail!("{VARIABLE}={value}: the tests do not run on this version; set one of {names}");
        };
        Ok(version)
    }

    /// Returns major and minor version, such as `1.37`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.row().name
    }

    /// Returns the minor version, such as `37`.
    pub(super) fn minor(self) -> &'static str {
        self.name().trim_start_matches("1.")
    }

    /// Returns the version that the programs report, such as `v1.37.1`.
    #[must_use]
    pub const fn release(self) -> &'static str {
        self.row().release
    }

    /// Returns the name of the Go module that the programs are built from.
    pub(super) const fn module(self) -> &'static str {
        self.row().module
    }

    /// Returns true if the API server serves MutatingAdmissionPolicy in `v1`, as since 1.36. Only
    /// then the chart's policy stamps requesters; otherwise the operator's webhook does.
    #[must_use]
    pub fn has_mutating_policies(self) -> bool {
        self.mutating_policy_api() == "v1"
    }

    /// Returns the API version of MutatingAdmissionPolicy. Below 1.36 it is off by default, and the
    /// control plane enables it for the policies of tests.
    #[must_use]
    pub const fn mutating_policy_api(self) -> &'static str {
        self.row().mutating_policy_api
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_is_chosen_by_its_name() {
        assert_eq!(
            KubernetesVersion::parse("").unwrap(),
            KubernetesVersion::V1_37
        );
        for version in KubernetesVersion::ALL {
            assert_eq!(KubernetesVersion::parse(version.name()).unwrap(), version);
            let release = format!("v{}.", version.name());
            assert!(version.release().starts_with(&release));
        }
        assert!(!KubernetesVersion::V1_35.has_mutating_policies());
        assert!(KubernetesVersion::V1_37.has_mutating_policies());
    }

    #[test]
    fn unknown_version_is_an_error_that_names_the_versions() {
        for value in ["1.34", "v1.37", "1.37.1", "latest"] {
            let error = KubernetesVersion::parse(value).unwrap_err().to_string();
            assert!(error.ends_with("set one of 1.33, 1.35, 1.37"), "{error}");
            assert!(
                error.starts_with(&format!("TRELLIS_KUBERNETES={value}:")),
                "{error}"
            );
        }
    }
}
