//! Objects created from a document, validated by Trellis' own rules.

use std::collections::BTreeSet;

use k8s_openapi::api::scheduling::v1::PriorityClass;
use serde::Serialize;
use trellis_api::document::{self, Problems};
use trellis_api::{ResourceFlavor, Topology, TrainingJob, TrainingQueue};

use crate::field_log::FieldLog;

/// An object of Trellis.
#[derive(Serialize, Clone, Debug, PartialEq)]
#[serde(untagged)]
#[expect(
    clippy::large_enum_variant,
    reason = "there are as many as documents, no more"
)]
pub enum ImportedObject {
    /// A job.
    TrainingJob(TrainingJob),
    /// A queue.
    Queue(TrainingQueue),
    /// A flavor.
    ResourceFlavor(ResourceFlavor),
    /// A topology: levels of node labels.
    Topology(Topology),
    /// A PriorityClass of Kubernetes that jobs name.
    PriorityClass(PriorityClass),
}

impl ImportedObject {
    /// Order in which objects are applied: objects that jobs refer to come first.
    pub(crate) fn apply_order(&self) -> u8 {
        match self {
            Self::PriorityClass(_) => 0,
            Self::ResourceFlavor(_) => 1,
            Self::Topology(_) => 2,
            Self::Queue(_) => 3,
            Self::TrainingJob(_) => 4,
        }
    }

    /// Returns the kind, and `namespace/name`.
    fn key(&self) -> (&'static str, String) {
        let (kind, metadata) = match self {
            Self::TrainingJob(job) => ("TrainingJob", &job.metadata),
            Self::Queue(queue) => ("TrainingQueue", &queue.metadata),
            Self::ResourceFlavor(flavor) => ("ResourceFlavor", &flavor.metadata),
            Self::Topology(topology) => ("Topology", &topology.metadata),
            Self::PriorityClass(class) => ("PriorityClass", &class.metadata),
        };
        let name = metadata.name.as_deref().unwrap_or_default();
        match &metadata.namespace {
            Some(namespace) => (kind, format!("{namespace}/{name}")),
            None => (kind, name.to_owned()),
        }
    }

    /// Returns all problems that Trellis would report for the object in a file.
    fn problems(&self) -> Vec<(String, String)> {
        let text = match document::to_yaml(self) {
            Ok(text) => text,
            Err(error) => return vec![(String::new(), error.to_string())],
        };
        let describe = |problems: Problems| -> Vec<(String, String)> {
            let problems = problems.into_iter();
            problems.map(|p| (p.field, p.message)).collect()
        };
        let documents = match document::split(&text) {
            Ok(documents) => documents,
            Err(problems) => return describe(problems),
        };
        let wrong = documents.iter().filter_map(|document| match self {
            Self::TrainingJob(_) => document.decode_valid::<TrainingJob>().err(),
            Self::Queue(_) => document.decode_valid::<TrainingQueue>().err(),
            Self::ResourceFlavor(_) => document.decode_valid::<ResourceFlavor>().err(),
            Self::Topology(_) => document.decode_valid::<Topology>().err(),
            Self::PriorityClass(_) => document.decode::<PriorityClass>().err(),
        });
        wrong.flat_map(describe).collect()
    }
}

/// The kinds and names of all objects that were created so far.
#[derive(Default)]
pub(crate) struct CreatedObjects(BTreeSet<(&'static str, String)>);

impl CreatedObjects {
    /// Returns true if the object is valid and no earlier object has its name. Otherwise records
    /// the problem.
    pub(crate) fn accept(&mut self, object: &ImportedObject, log: &FieldLog) -> bool {
        let problems = object.problems();
        for (field, message) in &problems {
            let group = object.key().0;
            let message =
                format!("becomes a {group} that Trellis would refuse: {field}: {message}");
            log.add_problem(&log.origin_of(field), message);
        }
        if !problems.is_empty() {
            return false;
        }
        let (kind, name) = object.key();
        let is_new = self.0.insert((kind, name.clone()));
        if !is_new {
            let message = format!("becomes a second {kind} {name:?}: rename one of the two");
            log.add_problem("metadata.name", message);
        }
        is_new
    }
}
