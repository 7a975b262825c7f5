//! A resolved TrainingJob in; the Kubernetes objects and what they demand out.
//!
//! [`compile()`] cannot fail and touches nothing: no client, no clock, no
//! randomness. Its result is a function of the job, of what the caller
//! found in the cluster for it ([`CompileContext`]) and of the operator's
//! [`Settings`], so that `trellis plan`, the controller and the tests all see
//! the same objects.
//!
//! ```
//! use std::collections::BTreeMap;
//! use std::sync::Arc;
//! use trellis_api::{QueueResources, ResolvedJob, TrainingJob, ValidatedJob, document};
//! use trellis_compiler::{CompileContext, CompileFacts, PodPlacement, Settings, compile};
//!
//! let file = "
//! apiVersion: trellis.dev/v1alpha1
//! kind: TrainingJob
//! metadata: {name: llm, namespace: team-a}
//! spec:
//!   taskGroups: [{name: worker, gpus: 8, image: 'train:1', resources: {limits: {cpu: 96, memory: 1Ti}}}]
//! ";
//! for document in document::split(file)? {
//!     let job = ValidatedJob::try_from(document.decode_valid::<TrainingJob>()?)?;
//!     let job = ResolvedJob::new(job, None, "default", QueueResources::default())?;
//!     let facts = CompileFacts {
//!         queue: "default",
//!         priority: 0,
//!         namespace_enforces_restricted: false,
//!         services: &BTreeMap::new(),
//!     };
//!     let context = CompileContext::resolve(job.job(), facts)?;
//!     let compiled = compile(job, context, &Arc::new(Settings::default()));
//!     let placement = PodPlacement { attempt: 1, plan: "0123456789abcdef", node: "gpu-0", ..PodPlacement::UNPLACED };
//!     for group in compiled.groups() {
//!         let pod = group.pod(0, &placement);
//!         assert_eq!(pod.metadata.name.as_deref(), Some("llm-worker-0"));
//!     }
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod compile;
mod compile_context;
mod compile_input;
mod compiled_group;
mod compiled_job;
mod demand;
mod environment;
mod framework;
mod gang_facts;
mod hash;
mod objects;
mod pod;
mod ports;
mod profile;
mod required_objects;
mod resolved_service;
mod resources;
mod settings;

pub use compile::compile;
pub use compile_context::{CompileContext, CompileFacts, UnresolvedServices, required_services};
pub use compiled_group::{CompiledGroup, PodBuilder, PodPlacement};
pub use compiled_job::CompiledJob;
pub use demand::{Demand, Endpoint, Peer, RemoteSecret, pod_demands as demands_of_pod};
pub use hash::hash_of;
pub use pod::toleration;
pub use profile::HashedProfile;
pub use required_objects::RequiredObject;
pub use resolved_service::{ResolvedService, ServiceProblem};
pub use resources::combine_requests;
pub use settings::{DnsPeer, DnsServers, Settings};
