//! Converts objects of other systems into Trellis' objects: jobs of Volcano, Kueue, Kubeflow and
//! Lattice, and the queues, flavors and topologies of Kueue and Volcano.
//!
//! No field is dropped silently. Every importer reads its document through `Fields`, which records
//! each field that was read; each unread field becomes a [`Note`]. Created objects are validated by
//! Trellis' own rules before they are returned.
//!
//! Pure: documents in, objects and notes out.

mod context;
mod draft;
mod existing;
mod fields;
mod flavors;
mod kinds;
mod kubeflow;
mod kueue;
mod lattice;
mod leftover;
mod log;
mod metadata;
mod object;
mod parents;
mod pod;
mod render;
mod volcano;

use trellis_api::document::{Document, Problem};
use trellis_api::{Quantity, TrainingQueue};

use context::Context;
use log::Log;

pub use kinds::{is_job, is_known, known};
pub use log::Note;
pub use object::Object;
pub use render::{json, yaml};

/// Values for fields that the documents leave out.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// CPU of containers that name none, in cores. Absent: a main container with GPUs stays
    /// without, for `resourcesPerGPU`; a job with any other such container cannot be imported.
    pub cpu: Option<Quantity>,
    /// Memory of containers that name none, in bytes. Absent: as for CPU.
    pub memory: Option<Quantity>,
    /// Queues of the cluster. Differences from them become notes.
    pub existing: Vec<TrainingQueue>,
}

/// Result of importing one document.
#[derive(Clone, Debug)]
pub struct Imported {
    /// Index of the document in the input, from 0.
    pub document: usize,
    /// The imported object, such as `PyTorchJob team-a/resnet`.
    pub from: String,
    /// Created objects, valid by Trellis' own rules. Empty if the document cannot be imported.
    pub objects: Vec<Object>,
    /// Fields that were not carried over exactly, in order of the document.
    pub notes: Vec<Note>,
    /// Reasons why the document cannot be imported. Empty if it was.
    pub problems: Vec<Problem>,
}

/// A document and the objects made from it alone.
struct Turned<'d> {
    document: &'d Document,
    value: &'d serde_json::Value,
    log: Log,
    /// Valid objects, each the first of its name. Empty if the document cannot be imported.
    objects: Vec<Object>,
}

/// Converts documents. They are read together, because a LocalQueue determines the queue for jobs
/// in other documents.
#[must_use]
pub fn import(documents: &[Document], options: &Options) -> Vec<Imported> {
    let values: Vec<_> = documents.iter().map(fields::value).collect();
    let context = Context::of(documents, &values, options);
    let mut made = object::Made::default();
    let turned = documents.iter().zip(&values).map(|(document, value)| {
        let log = Log::default();
        let mut objects = kinds::turn(document, value, &context, &log);
        leftover::note(value, &log);
        if log.is_wrong() {
            objects.clear();
        }
        objects.retain(|object| made.takes(object, &log));
        Turned {
            document,
            value,
            log,
            objects,
        }
    });
    let mut turned: Vec<_> = turned.collect();
    // All Queues and ResourceFlavors of the documents are known only now.
    parents::make(&mut turned, &mut made, &options.existing);
    flavors::tell(&turned);
    existing::tell(&turned, &options.existing);
    let told = turned.into_iter().enumerate().map(|(at, one)| {
        let (notes, problems) = one.log.told(one.document);
        Imported {
            document: at,
            from: kinds::title(one.document, one.value),
            objects: one.objects,
            notes,
            problems,
        }
    });
    told.collect()
}
