//! The targets, each with the properties that it checks.

pub mod engine;
pub mod front_proxy;
pub mod history;
pub mod import;
pub mod job;
pub mod journal;
pub mod names;
pub mod policy;
pub mod quantity;
pub mod review;
pub mod rules;
pub mod snapshot;
pub mod traces;
pub mod visibility_request;
pub mod watch_items;
pub mod watch_stream;
pub mod yaml;

use garde::Validate;
use kube::Resource;
use serde::Serialize;
use serde::de::DeserializeOwned;
use trellis_api::document::{self, Document, Problem, Problems};
use trellis_api::{
    ClusterJobPolicy, JobPolicy, QuotaPolicy, ResourceFlavor, RuntimeProfile, Topology,
    TrainingJob, TrainingQueue,
};

/// Words of documents of Trellis.
const DOCUMENT_WORDS: &[&str] = &[
    "kind",
    "metadata",
    "name",
    "spec",
    "taskGroups",
    "replicas",
    "minReplicas",
    "gpus",
    "image",
    "resources",
    "limits",
    "requests",
    "cpu",
    "memory",
    "nvidia.com/gpu",
    "env",
    "mounts",
    "ports",
    "secrets",
    "imagePullSecrets",
    "podTemplate",
    "dependsOn",
    "role",
    "topology",
    "restart",
    "1Gi",
    "500m",
    "16Ti",
    "2147483647",
    "&a",
    "*a",
    "<<: *a",
    "---",
    "- ",
    "  ",
    "|",
    ">",
];

/// Returns the objects of a text that can be read, after checking the problems of the rest.
fn readable_documents(text: &str) -> Vec<Document> {
    let read = document::read(text).into_iter();
    read.filter_map(|document| {
        document
            .map_err(|problem| check_problem(&problem, text))
            .ok()
    })
    .collect()
}

/// A check of an object that Trellis accepts.
trait ObjectCheck {
    fn check<T>(object: T)
    where
        T: DeserializeOwned + Serialize + Validate<Context = ()> + Resource<DynamicType = ()>;
}

/// Checks the object of a document if Trellis accepts it. A document of another kind is read as a
/// TrainingJob.
fn check_object<C: ObjectCheck>(document: &Document, text: &str) {
    match document.kind.as_str() {
        "TrainingQueue" => check_as::<TrainingQueue, C>(document, text),
        "ResourceFlavor" => check_as::<ResourceFlavor, C>(document, text),
        "Topology" => check_as::<Topology, C>(document, text),
        "RuntimeProfile" => check_as::<RuntimeProfile, C>(document, text),
        "QuotaPolicy" => check_as::<QuotaPolicy, C>(document, text),
        "JobPolicy" => check_as::<JobPolicy, C>(document, text),
        "ClusterJobPolicy" => check_as::<ClusterJobPolicy, C>(document, text),
        _ => check_as::<TrainingJob, C>(document, text),
    }
}

fn check_as<T, C>(document: &Document, text: &str)
where
    T: DeserializeOwned + Serialize + Validate<Context = ()> + Resource<DynamicType = ()>,
    C: ObjectCheck,
{
    if let Some(object) = decode::<T>(document, text) {
        C::check(object);
    }
}

/// Decodes a document and checks every rule. Checks that each problem helps a user.
fn decode<T>(document: &Document, text: &str) -> Option<T>
where
    T: DeserializeOwned + Serialize + Validate<Context = ()>,
{
    match document.decode_valid::<T>() {
        Ok(object) => Some(object),
        Err(problems) => {
            check_problems(&problems, text);
            None
        }
    }
}

fn check_problems(problems: &Problems, text: &str) {
    check_problems_of_file(problems, text);
    let mut places: Vec<_> = problems
        .as_slice()
        .iter()
        .map(|p| (p.line, p.column))
        .collect();
    assert!(places.is_sorted(), "problems are in the order of the file");
    places.dedup();
    let rows = problems.as_slice().iter().map(|p| (&p.field, &p.message));
    let rows: Vec<_> = rows.collect();
    for (index, row) in rows.iter().enumerate() {
        assert!(!rows[..index].contains(row), "{row:?} is reported twice");
    }
}

/// A problem has a message, a place within the file, and nothing that could control a terminal.
fn check_problem(problem: &Problem, text: &str) {
    assert!(!problem.message.is_empty(), "{problem:?} has no message");
    let lines = text.lines().count();
    assert!(
        problem.line <= lines + 1,
        "{problem:?} is after the last of {lines} lines"
    );
    let is_harmful = |c: char| c.is_control() && c != '\n';
    assert!(
        !problem.snippet.contains(is_harmful),
        "{problem:?} has control characters"
    );
}

/// Checks the problems of several objects of a file.
fn check_problems_of_file(problems: &Problems, text: &str) {
    assert!(!problems.as_slice().is_empty(), "a refusal names a problem");
    for problem in problems.as_slice() {
        check_problem(problem, text);
    }
}
