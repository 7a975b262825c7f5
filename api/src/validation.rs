//! Validates a TrainingJob: returns a [`ValidatedJob`] or all violations.

use std::borrow::Cow;
use std::fmt;

use garde::Validate;
use k8s_openapi::api::core::v1::PodTemplateSpec;

use crate::job::{TrainingJob, TrainingJobSpec};
use crate::job_policy::{ClusterJobPolicy, JobPolicy};
use crate::queue::TrainingQueue;
use crate::quota_policy::QuotaPolicy;
use crate::resource_flavor::ResourceFlavor;
use crate::rules;
use crate::runtime_profile::RuntimeProfile;
use crate::topology::Topology;

/// A TrainingJob that satisfies every rule, with the identity that compilation needs. Only
/// [`TryFrom`] creates one.
#[derive(Clone, Debug, PartialEq)]
pub struct ValidatedJob {
    namespace: String,
    name: String,
    uid: String,
    generation: i64,
    spec: TrainingJobSpec,
    /// Templates by group. The list may end after the last group with a template.
    templates: Vec<Option<PodTemplateSpec>>,
}

impl ValidatedJob {
    /// Returns the namespace of the job and of its children.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Returns the name of the job.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the uid of the object; empty for a job that is only planned.
    #[must_use]
    pub fn uid(&self) -> &str {
        &self.uid
    }

    /// Returns the generation that was validated; 0 for a job that is only planned.
    #[must_use]
    pub fn generation(&self) -> i64 {
        self.generation
    }

    /// Returns the spec of the job.
    #[must_use]
    pub fn spec(&self) -> &TrainingJobSpec {
        &self.spec
    }

    /// Returns the job as it applies during a stage ([`TrainingJobSpec::for_stage`]).
    #[must_use]
    pub fn into_stage(self, stage: u32) -> Self {
        let spec = match self.spec.for_stage(stage) {
            Cow::Borrowed(_) => return self,
            Cow::Owned(spec) => spec,
        };
        Self {
            templates: templates(&spec),
            spec,
            ..self
        }
    }

    /// Returns the pod template of a task group, by its index in the spec.
    #[must_use]
    pub fn template(&self, group: usize) -> Option<&PodTemplateSpec> {
        self.templates.get(group)?.as_ref()
    }
}

/// Returns the pod templates of the groups. The list is empty if no group has one, the usual case.
fn templates(spec: &TrainingJobSpec) -> Vec<Option<PodTemplateSpec>> {
    let groups = spec.task_groups.iter();
    if spec.task_groups.iter().all(|g| g.pod_template.is_none()) {
        return Vec::new();
    }
    groups
        // A template that does not decode breaks a rule, so it cannot occur here.
        .map(|group| group.pod_template.as_ref()?.decode().ok())
        .collect()
}

impl TryFrom<TrainingJob> for ValidatedJob {
    type Error = Violations;

    fn try_from(job: TrainingJob) -> Result<Self, Violations> {
        check_rules(&job)?;
        let name = job.likely_name().unwrap_or_default();
        Ok(Self {
            namespace: job
                .metadata
                .namespace
                .unwrap_or_else(|| "default".to_owned()),
            name,
            uid: job.metadata.uid.unwrap_or_default(),
            generation: job.metadata.generation.unwrap_or_default(),
            templates: templates(&job.spec),
            spec: job.spec,
        })
    }
}

/// Placeholder for the suffix that the API server adds to `generateName`: five letters and digits.
const GENERATED_SUFFIX: &str = "xxxxx";

impl TrainingJob {
    fn has_name(&self) -> bool {
        self.metadata.name.as_ref().is_some_and(|n| !n.is_empty())
    }

    /// Returns the job's name. If the API server has still to generate it from
    /// `metadata.generateName`, returns a name of the same form. Returns None if the job has
    /// neither.
    #[must_use]
    pub fn likely_name(&self) -> Option<String> {
        if self.has_name() {
            return self.metadata.name.clone();
        }
        let prefix = self.metadata.generate_name.as_ref();
        let prefix = prefix.filter(|prefix| !prefix.is_empty());
        prefix.map(|prefix| format!("{prefix}{GENERATED_SUFFIX}"))
    }
}

impl Validate for TrainingJob {
    type Context = ();

    fn validate_into(
        &self,
        ctx: &(),
        parent: &mut dyn FnMut() -> garde::Path,
        report: &mut garde::Report,
    ) {
        let mut of_metadata = |field: &str, result: garde::Result| {
            if let Err(error) = result {
                report.append(parent().join("metadata").join(field), error);
            }
        };
        match self.likely_name() {
            None => of_metadata("name", Err(garde::Error::new("is required: add it"))),
            Some(name) => {
                let field = if self.has_name() {
                    "name"
                } else {
                    "generate_name"
                };
                of_metadata(field, rules::job_name(&name));
                of_metadata(field, rules::pod_name(&name, &self.spec.task_groups));
            }
        }
        if let Some(namespace) = &self.metadata.namespace {
            of_metadata("namespace", rules::namespace(namespace));
        }
        if let Some(labels) = &self.metadata.labels {
            of_metadata("labels", rules::job_labels(labels));
        }
        if let Some(annotations) = &self.metadata.annotations {
            of_metadata("annotations", rules::job_annotations(annotations));
        }
        for (g, group) in self.spec.task_groups.iter().enumerate() {
            let mut path = || parent().join("spec").join("task_groups").join(g);
            for (v, variable) in group.env.iter().enumerate() {
                if let Err(error) = rules::reserved_env(&variable.name, self.spec.framework()) {
                    report.append(path().join("env").join(v).join("name"), error);
                }
            }
            for (field, stated) in [
                ("cpu", rules::cpu_stated(group)),
                ("memory", rules::memory_stated(group)),
            ] {
                if let Err(error) = stated {
                    report.append(path().join("resources").join("limits").join(field), error);
                }
            }
            let template = group.pod_template.as_ref();
            for reserved in template
                .iter()
                .flat_map(|t| t.reserved_env(self.spec.framework()))
            {
                let error = garde::Error::new(reserved.message);
                report.append(path().join("pod_template").join(reserved.path), error);
            }
        }
        self.spec
            .validate_into(ctx, &mut || parent().join("spec"), report);
        if report.is_empty() {
            let groups = parent().join("spec").join("task_groups");
            for error in stage_errors(&self.spec) {
                report.append(groups.clone(), error);
            }
        }
    }
}

/// Returns the violations of single stages: each stage needs its own gang, and what its framework
/// requires.
fn stage_errors(spec: &TrainingJobSpec) -> Vec<garde::Error> {
    let stages = spec.stage_count();
    if stages == 1 {
        return Vec::new();
    }
    let of_stage = |stage| {
        let spec = TrainingJobSpec {
            // Restart rules may name groups of other stages.
            restart: None,
            ..spec.for_stage(stage).into_owned()
        };
        let names: Vec<_> = spec.task_groups.iter().map(|g| g.name.as_str()).collect();
        let of = format!("stage {stage} of {stages} ({})", names.join(", "));
        let report = spec.validate().err();
        let errors = report.iter().flat_map(|report| report.iter());
        errors
            .map(|(_, error)| garde::Error::new(format!("{of}: {}", error.message())))
            .collect::<Vec<_>>()
    };
    (1..=stages).flat_map(of_stage).collect()
}

/// Implements validation for kinds whose rules all concern their spec.
macro_rules! by_spec {
    ($($kind:ty),+) => {$(
        impl Validate for $kind {
            type Context = ();

            fn validate_into(
                &self,
                ctx: &(),
                parent: &mut dyn FnMut() -> garde::Path,
                report: &mut garde::Report,
            ) {
                self.spec
                    .validate_into(ctx, &mut || parent().join("spec"), report);
            }
        }
    )+};
}

by_spec!(
    TrainingQueue,
    ResourceFlavor,
    Topology,
    ClusterJobPolicy,
    JobPolicy,
    QuotaPolicy,
    RuntimeProfile
);

/// One violation of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Path of the field, as in YAML: `spec.taskGroups[0].replicas`.
    pub path: String,
    /// The rule and the fix.
    pub message: String,
}

/// All violations of an object. Never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violations(Vec<Violation>);

impl Violations {
    /// Returns the violations, in the order of the fields.
    #[must_use]
    pub fn as_slice(&self) -> &[Violation] {
        &self.0
    }
}

/// Checks the rules of an object's kind.
///
/// # Errors
/// Every violated rule.
pub fn check_rules<T: Validate<Context = ()>>(object: &T) -> Result<(), Violations> {
    object
        .validate()
        .map_err(|report| Violations::from(&report))
}

impl From<&garde::Report> for Violations {
    fn from(report: &garde::Report) -> Self {
        Self(
            report
                .iter()
                .map(|(path, error)| {
                    violation_from_garde(camel_case(&path.to_string()), error.message())
                })
                .collect(),
        )
    }
}

fn violation_from_garde(path: String, message: &str) -> Violation {
    let whole = rules::WHOLE_OBJECT_RULES
        .iter()
        .any(|r| r.message() == message);
    let path = match path.rsplit_once('.') {
        Some((parent, _)) if whole => parent.to_owned(),
        _ => path,
    };
    Violation {
        message: message.to_owned(),
        path,
    }
}

/// Converts a field name from Rust's form, which garde uses, into the form in YAML.
pub(crate) fn camel_case(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    let mut upper = false;
    for c in path.chars() {
        match c {
            '_' => upper = true,
            c if upper => {
                out.extend(c.to_uppercase());
                upper = false;
            }
            c => out.push(c),
        }
    }
    // This initialism is written in capitals, as in Kubernetes.
    out.replace("PerGpu", "PerGPU")
}

impl fmt::Display for Violations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, violation) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str("; ")?;
            }
            write!(f, "{}: {}", violation.path, violation.message)?;
        }
        Ok(())
    }
}

impl std::error::Error for Violations {}
