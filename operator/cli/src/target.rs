//! The cluster, namespace and jobs that a command works on.

use std::process::ExitCode;

use anyhow::bail;
use trellis_api::rules;
use trellis_api::visibility::GangName;
use trellis_reads::Reader;

use crate::cluster::{ClusterClient, ClusterOptions, USER_AGENT};
use crate::exit::Exit;
use crate::output::warn;

/// Options for the cluster and the namespace.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct NamespaceOptions {
    /// The namespace. Default: the namespace of the context.
    #[arg(short, long, value_name = "NAMESPACE")]
    pub namespace: Option<String>,
    /// Cluster and user.
    #[command(flatten)]
    pub cluster: ClusterOptions,
}

/// A cluster, and the selected namespace in it.
#[derive(Debug)]
pub struct TargetNamespace {
    /// The cluster.
    pub cluster: ClusterClient,
    /// Reads in the namespace.
    pub reader: Reader,
}

impl NamespaceOptions {
    /// Creates a client for the cluster.
    ///
    /// # Errors
    /// If no cluster is configured.
    pub fn connect(&self) -> anyhow::Result<TargetNamespace> {
        let cluster =
            ClusterClient::connect(&self.cluster.to_kubeconfig_options(), USER_AGENT, None)?;
        let reader = match &self.namespace {
            Some(namespace) => cluster.reader().in_namespace(namespace),
            None => cluster.reader(),
        };
        Ok(TargetNamespace { cluster, reader })
    }
}

/// Runs the action for each job, one after another, also after a failure.
/// Reports each failure, and returns the worst exit status.
///
/// # Errors
/// If a name is invalid, before any action runs; or if no cluster is configured.
pub fn for_each_job(
    place: &NamespaceOptions,
    written: &[String],
    act: impl AsyncFn(&TargetNamespace, &str) -> anyhow::Result<Exit>,
) -> anyhow::Result<ExitCode> {
    let names = written.iter().map(|written| parse_job_name(written));
    let names = names.collect::<anyhow::Result<Vec<_>>>()?;
    let site = place.connect()?;
    let worst = site.cluster.block_on(async {
        let mut worst = Exit::Done;
        for name in &names {
            worst = worst.max(report_result(name, act(&site, name).await));
        }
        worst
    });
    Ok(worst.into())
}

/// Reports the error of one job, and returns its exit status.
/// The command then continues with the other jobs.
pub fn report_result(name: &str, came_to: anyhow::Result<Exit>) -> Exit {
    came_to.unwrap_or_else(|error| {
        warn(&format!("error: {name}: {error:#}"));
        Exit::Invalid
    })
}

/// Parses the name of a job: `llm`, `tj/llm` or `trainingjob.trellis.dev/llm`.
///
/// # Errors
/// If the text names another kind, or the name is invalid.
pub fn parse_job_name(written: &str) -> anyhow::Result<String> {
    let name = match written.split_once('/') {
        None => written,
        Some((kind, name)) => {
            let kind = kind.to_ascii_lowercase();
            let kind = kind.trim_end_matches(".trellis.dev");
            if !matches!(kind, "tj" | "trainingjob" | "trainingjobs") {
                bail!("{written:?} is not a TrainingJob: write its name, or tj/NAME");
            }
            name
        }
    };
    if rules::job_name(name).is_err() {
        bail!("{name:?} is not a name of a TrainingJob: use lower-case letters, digits and -");
    }
    Ok(name.to_owned())
}

/// Parses the name of a job or of external pods.
/// It accepts `podgroup/sweep`, `pod/x` and the forms of [`parse_job_name`].
///
/// # Errors
/// If the text names another kind, or the name is invalid.
pub fn parse_gang_name(written: &str) -> anyhow::Result<GangName> {
    let Some((kind, name)) = written.split_once('/') else {
        return parse_job_name(written).map(GangName::Job);
    };
    let kind = kind.to_ascii_lowercase();
    let gang: fn(String) -> GangName = match kind.trim_end_matches(".trellis.dev") {
        "podgroup" | "podgroups" => GangName::PodGroup,
        "pod" | "pods" | "po" => GangName::Pod,
        "tj" | "trainingjob" | "trainingjobs" => return parse_job_name(written).map(GangName::Job),
        _ => bail!(
            "{written:?} is not a TrainingJob, PodGroup or pod: write its name, or podgroup/NAME"
        ),
    };
    if rules::object_name(name, &()).is_err() {
        bail!("{name:?} is not a name of a {kind}: use lower-case letters, digits, - and .");
    }
    Ok(gang(name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn job_name_accepts_the_forms_of_kubectl() {
        for written in [
            "llm",
            "tj/llm",
            "trainingjob/llm",
            "TrainingJobs.trellis.dev/llm",
        ] {
            assert_eq!(parse_job_name(written).unwrap(), "llm", "{written}");
        }
        let error = parse_job_name("pod/llm").unwrap_err().to_string();
        assert!(error.contains("tj/NAME"), "{error}");
        for wrong in ["", "tj/", "A", "a/b/c", "a b"] {
            assert!(parse_job_name(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn gang_name_accepts_the_forms_of_trellis_queue() {
        for (written, gang) in [
            ("llm", GangName::Job("llm".to_owned())),
            ("tj/llm", GangName::Job("llm".to_owned())),
            ("PodGroup/a.b", GangName::PodGroup("a.b".to_owned())),
            ("podgroup.trellis.dev/a", GangName::PodGroup("a".to_owned())),
            ("Pod/w-0", GangName::Pod("w-0".to_owned())),
            ("po/w-0", GangName::Pod("w-0".to_owned())),
        ] {
            assert_eq!(parse_gang_name(written).unwrap(), gang, "{written}");
        }
        for wrong in ["", "pod/", "pod/A", "deploy/x", "podgroup/a/b", "tj/a.b"] {
            assert!(parse_gang_name(wrong).is_err(), "{wrong:?}");
        }
        let error = parse_gang_name("deploy/x").unwrap_err().to_string();
        assert!(error.contains("podgroup/NAME"), "{error}");
    }
}
