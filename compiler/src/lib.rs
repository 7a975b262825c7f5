//! A resolved TrainingJob in; the Kubernetes objects and what they demand out.
//!
//! [`compile`] cannot fail and touches nothing: no client, no clock, no
//! randomness. Its result is a function of the job, of what the caller
//! found in the cluster for it ([`Surroundings`]) and of the operator's
//! [`Settings`], so that `trellis plan`, the controller and the tests all see
//! the same objects.
//!
//! ```
//! use std::collections::BTreeMap;
//! use std::sync::Arc;
//! use trellis_api::{QueueResources, ResolvedJob, TrainingJob, ValidatedJob, document};
//! use trellis_compiler::{Found, PodPlacement, Settings, Surroundings, compile};
//!
//! let file = "
//! apiVersion: trellis.dev/v1alpha1
//! kind: TrainingJob
//! metadata: {name: llm, namespace: team-a}
//! spec:
//!   taskGroups: [{name: worker, gpus: 8, image: 'train:1', resources: {limits: {cpu: 96, memory: 1Ti}}}]
//! ";
//! for document in document::split(file)? {
//!     let job = ValidatedJob::try_from(document.valid::<TrainingJob>()?)?;
//!     let job = ResolvedJob::new(job, None, "default", QueueResources::default())?;
//!     let found = Found {
//!         queue: "default",
//!         priority: 0,
//!         namespace_enforces_restricted: false,
//!         services: &BTreeMap::new(),
//!     };
//!     let surroundings = Surroundings::resolve(job.job(), found)?;
//!     let compiled = compile(job, surroundings, &Arc::new(Settings::default()));
//!     let placement = PodPlacement { attempt: 1, plan: "0123456789abcdef", node: "gpu-0", ..PodPlacement::NOWHERE };
//!     for group in compiled.groups() {
//!         let pod = group.pod(0, &placement);
//!         assert_eq!(pod.metadata.name.as_deref(), Some("llm-worker-0"));
//!     }
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod compile;
mod compiled;
mod demand;
mod environment;
mod framework;
mod gang;
mod group;
mod hash;
mod metadata;
mod needs;
mod network;
mod pod;
mod pod_group;
mod ports;
mod profile;
mod resolved_service;
mod resources;
mod secrets;
mod service;
mod settings;
mod source;
mod surroundings;

pub use compile::compile;
pub use compiled::CompiledJob;
pub use demand::{Demand, Endpoint, Peer, RemoteSecret, of_pod as demands_of_pod};
pub use group::{CompiledGroup, PodPlacement, PodTemplate};
pub use hash::hash_of;
pub use needs::Need;
pub use pod::toleration;
pub use profile::Profile;
pub use resolved_service::{ResolvedService, ServiceProblem};
pub use resources::together;
pub use settings::{DnsPeer, DnsServers, Settings};
pub use surroundings::{Found, Surroundings, Unresolved, required_services};
