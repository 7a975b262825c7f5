//! What other systems use, turned into Trellis' objects: jobs of Volcano, Kueue, Kubeflow and
//! Lattice, and the queues, flavors and topologies of Kueue and Volcano.
//!
//! Nothing is lost on the way without a word. Every importer reads its document through
//! `Fields`, which remembers each field that was taken; what nobody took becomes a [`Note`] by
//! itself. What is made is checked by Trellis' own rules before it is handed out.
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

/// What is taken where the documents do not say it.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// CPU of containers that name none, in cores. Absent: a main container with GPUs is left
    /// without, for `resourcesPerGPU`; a job with any other such container is not turned.
    pub cpu: Option<Quantity>,
    /// Memory of containers that name none, in bytes. Absent: as for CPU.
    pub memory: Option<Quantity>,
    /// Queues that the cluster has: what applying changes of them is told.
    pub existing: Vec<TrainingQueue>,
}

/// What came of one document.
#[derive(Clone, Debug)]
pub struct Imported {
    /// Which it is of the documents given, from 0.
    pub document: usize,
    /// What it was, such as `PyTorchJob team-a/resnet`.
    pub from: String,
    /// What it has become, each by Trellis' own rules. Of a document that cannot be turned: none.
    pub objects: Vec<Object>,
    /// What was not carried over exactly, in order of the document.
    pub notes: Vec<Note>,
    /// Why it cannot be turned. Empty: it was.
    pub problems: Vec<Problem>,
}

/// A document, and what it has become by itself.
struct Turned<'d> {
    document: &'d Document,
    value: &'d serde_json::Value,
    log: Log,
    /// Valid, each the first of its name. Of a document that cannot be turned: none.
    objects: Vec<Object>,
}

/// Turns documents. They are read together: a LocalQueue says which queue the jobs of another
/// document go to.
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
    // Which Queues and ResourceFlavors there are is known only now.
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
