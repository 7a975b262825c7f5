//! Converts objects of other systems into Trellis' objects: jobs of Volcano, Kueue, KAI, Kubeflow and
//! Lattice, and the queues, flavors and topologies of Kueue, Volcano and KAI.
//!
//! No field is dropped silently. Every importer reads its document through `Fields`, which records
//! each field that was read; each unread field becomes a [`ImportNote`]. Created objects are
//! validated by Trellis' own rules before they are returned.
//!
//! Pure: documents in, objects and notes out.

mod amounts;
mod context;
mod draft;
mod existing_queues;
mod field_log;
mod fields;
mod imported_object;
mod job_value;
mod kai;
mod kinds;
mod kubeflow;
mod kuberay;
mod kueue;
mod lattice;
mod metadata;
mod missing_flavors;
mod parent_queues;
mod pod;
mod queue_tree;
mod render;
mod restart_rule;
mod unread_fields;
mod volcano;

use trellis_api::document::{Document, Problem};
use trellis_api::{Quantity, TrainingQueue};

use context::ImportContext;
use field_log::FieldLog;

pub use field_log::ImportNote;
pub use imported_object::ImportedObject;
pub use kinds::{becomes_job, importable_kinds, is_importable};
pub use render::{render_json, render_yaml};

/// Values for fields that the documents leave out.
#[derive(Clone, Debug, Default)]
pub struct ConversionOptions {
    /// CPU in cores for containers that request none. Absent: a main container with GPUs gets no
    /// CPU request, so that `resourcesPerGPU` applies. A job with any other such container cannot
    /// be imported.
    pub cpu: Option<Quantity>,
    /// Memory in bytes for containers that request none. Absent: as for CPU.
    pub memory: Option<Quantity>,
    /// Queues of the cluster. Differences from them become notes.
    pub existing: Vec<TrainingQueue>,
}

/// Result of importing one document.
#[derive(Clone, Debug)]
pub struct ImportedDocument {
    /// Index of the document in the input, from 0.
    pub document: usize,
    /// The imported object, such as `PyTorchJob team-a/resnet`.
    pub from: String,
    /// Created objects, valid by Trellis' own rules. Empty if the document cannot be imported.
    pub objects: Vec<ImportedObject>,
    /// Fields that were not carried over exactly, in order of the document.
    pub notes: Vec<ImportNote>,
    /// Reasons why the document cannot be imported. Empty if it was.
    pub problems: Vec<Problem>,
}

/// A document, and the objects from this document.
struct ConvertedDocument<'d> {
    document: &'d Document,
    value: &'d serde_json::Value,
    log: FieldLog,
    /// The valid objects with unique names. Empty if the document cannot be imported.
    objects: Vec<ImportedObject>,
}

/// Converts documents. They are read together, because a LocalQueue determines the queue for jobs
/// in other documents.
#[must_use]
pub fn import(documents: &[Document], options: &ConversionOptions) -> Vec<ImportedDocument> {
    let values: Vec<_> = documents.iter().map(fields::to_value).collect();
    let context = ImportContext::from_documents(documents, &values, options);
    let mut created = imported_object::CreatedObjects::default();
    let converted = documents.iter().zip(&values).map(|(document, value)| {
        let log = FieldLog::default();
        let mut objects = kinds::convert(document, value, &context, &log);
        unread_fields::note_unread(value, &log);
        if log.has_problems() {
            objects.clear();
        }
        objects.retain(|object| created.accept(object, &log));
        ConvertedDocument {
            document,
            value,
            log,
            objects,
        }
    });
    let mut converted: Vec<_> = converted.collect();
    // This step needs all queues and ResourceFlavors of the documents.
    parent_queues::create_parents(&mut converted, &mut created, &options.existing);
    missing_flavors::note_missing(&converted);
    existing_queues::note_changes(&converted, &options.existing);
    let reported = converted.into_iter().enumerate().map(|(at, one_document)| {
        let (notes, problems) = one_document
            .log
            .into_notes_and_problems(one_document.document);
        ImportedDocument {
            document: at,
            from: kinds::title(one_document.document, one_document.value),
            objects: one_document.objects,
            notes,
            problems,
        }
    });
    reported.collect()
}
