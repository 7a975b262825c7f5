//! Facts that the caller found in the cluster for one job.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Service;
use trellis_api::ValidatedJob;
use trellis_api::job::TrafficRule;

use crate::{HashedProfile, ResolvedService, ServiceProblem};

/// Facts that the caller has read from the cluster.
#[derive(Clone, Copy, Debug)]
pub struct CompileFacts<'a> {
    /// Name of the queue that the job is in: its own, or its namespace's default.
    pub queue: &'a str,
    /// The value of the job's PriorityClass, else of the cluster's default.
    pub priority: i32,
    /// True if the namespace enforces Pod Security "restricted".
    pub namespace_enforces_restricted: bool,
    /// The Services of the job's namespace, by name: at least those of
    /// [`required_services`] that exist.
    pub services: &'a BTreeMap<String, Service>,
}

/// Facts for a job, complete: every Service that it names exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompileContext {
    pub(crate) queue: String,
    pub(crate) priority: i32,
    pub(crate) namespace_enforces_restricted: bool,
    pub(crate) services: BTreeMap<String, ResolvedService>,
    pub(crate) profile: Option<Arc<HashedProfile>>,
    pub(crate) stage: u32,
}

/// The Services that keep a job waiting, and why. Never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnresolvedServices {
    problems: BTreeMap<String, ServiceProblem>,
    /// By Service: the first field that names it.
    fields: BTreeMap<String, String>,
}

impl UnresolvedServices {
    /// The Services, by name.
    #[must_use]
    pub fn services(&self) -> &BTreeMap<String, ServiceProblem> {
        &self.problems
    }
}

impl fmt::Display for UnresolvedServices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, (name, problem)) in self.problems.iter().enumerate() {
            if i > 0 {
                f.write_str("; ")?;
            }
            let field = self.fields.get(name).map_or("spec.network", String::as_str);
            write!(f, "{field}: Service {name:?} {problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for UnresolvedServices {}

/// Names of the Services that must be read before the job can be compiled.
#[must_use]
pub fn required_services(job: &ValidatedJob) -> BTreeSet<String> {
    let network = job.spec().network.iter();
    network
        .flat_map(|n| n.egress.iter().chain(&n.ingress))
        .filter_map(|rule| rule.service.clone())
        .collect()
}

impl CompileContext {
    /// Resolves the facts against the Services that the job names.
    ///
    /// # Errors
    /// Lists every Service that does not exist or cannot be a peer.
    pub fn resolve(
        job: &ValidatedJob,
        found: CompileFacts<'_>,
    ) -> Result<Self, UnresolvedServices> {
        let mut services = BTreeMap::new();
        let mut problems = BTreeMap::new();
        for name in required_services(job) {
            let service = found
                .services
                .get(&name)
                .ok_or(ServiceProblem::NotFound)
                .and_then(ResolvedService::try_from)
                .and_then(|service| {
                    if needs_service_ports(job, &name) && service.target_ports(&[]).is_empty() {
                        Err(ServiceProblem::NoPorts)
                    } else {
                        Ok(service)
                    }
                });
            match service {
                Ok(service) => services.insert(name, service).map(drop),
                Err(problem) => problems.insert(name, problem).map(drop),
            };
        }
        if !problems.is_empty() {
            return Err(UnresolvedServices {
                problems,
                fields: service_fields(job),
            });
        }
        Ok(Self {
            queue: found.queue.to_owned(),
            priority: found.priority,
            namespace_enforces_restricted: found.namespace_enforces_restricted,
            services,
            profile: None,
            stage: 1,
        })
    }

    /// Adds the job's RuntimeProfile: the one that it names, or the default.
    #[must_use]
    pub fn with_profile(self, profile: Option<Arc<HashedProfile>>) -> Self {
        Self { profile, ..self }
    }

    /// Sets the stage of the job, from 1: only its task groups are compiled.
    #[must_use]
    pub fn at_stage(self, stage: u32) -> Self {
        Self { stage, ..self }
    }
}

/// By Service: the first field that names it.
fn service_fields(job: &ValidatedJob) -> BTreeMap<String, String> {
    let mut fields = BTreeMap::new();
    if let Some(network) = &job.spec().network {
        for (list, rules) in [("egress", &network.egress), ("ingress", &network.ingress)] {
            for (at, rule) in rules.iter().enumerate() {
                if let Some(name) = &rule.service {
                    let field = || format!("spec.network.{list}[{at}].service");
                    fields.entry(name.clone()).or_insert_with(field);
                }
            }
        }
    }
    fields
}

/// True if an egress rule takes its ports from the Service.
fn needs_service_ports(job: &ValidatedJob, service: &str) -> bool {
    let takes =
        |rule: &TrafficRule| rule.service.as_deref() == Some(service) && rule.ports.is_empty();
    let network = job.spec().network.as_ref();
    network.is_some_and(|n| n.egress.iter().any(takes))
}
