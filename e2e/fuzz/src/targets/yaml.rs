//! Files of objects: YAML, lists, positions of problems.

use garde::Validate;
use serde::Serialize;
use serde::de::DeserializeOwned;
use trellis_api::document::{self, Document};
use trellis_api::{
    ClusterJobPolicy, JobPolicy, QuotaPolicy, ResourceFlavor, RuntimeProfile, Topology,
    TrainingJob, TrainingQueue,
};

use super::{DOCUMENT_WORDS, decode, readable_documents};
use crate::Target;

/// The target. Each problem names a place and has a message, and an object that is accepted reads
/// the same after it is written.
pub const TARGET: Target = Target {
    check,
    words: DOCUMENT_WORDS,
    inputs_per_case: 32,
};

fn check(input: &[u8]) {
    let Some(text) = crate::text(input) else {
        return;
    };
    let documents = readable_documents(text);
    match document::split(text) {
        Ok(all) => assert_eq!(all.len(), documents.len(), "every object can be read"),
        Err(problems) => super::check_problems_of_file(&problems, text),
    }
    for document in &documents {
        assert!(!document.kind.is_empty() && !document.api_version.is_empty());
        match document.kind.as_str() {
            "TrainingQueue" => check_round_trip::<TrainingQueue>(document, text),
            "ResourceFlavor" => check_round_trip::<ResourceFlavor>(document, text),
            "Topology" => check_round_trip::<Topology>(document, text),
            "RuntimeProfile" => check_round_trip::<RuntimeProfile>(document, text),
            "QuotaPolicy" => check_round_trip::<QuotaPolicy>(document, text),
            "JobPolicy" => check_round_trip::<JobPolicy>(document, text),
            "ClusterJobPolicy" => check_round_trip::<ClusterJobPolicy>(document, text),
            _ => check_round_trip::<TrainingJob>(document, text),
        }
    }
}

fn check_round_trip<T>(document: &Document, text: &str)
where
    T: DeserializeOwned + Serialize + Validate<Context = ()>,
{
    let Some(object) = decode::<T>(document, text) else {
        return;
    };
    let written = document::to_yaml(&object).expect("an object that is accepted can be written");
    let documents = document::split(&written).unwrap_or_else(|p| panic!("{p}\n{written}"));
    let [again] = documents.as_slice() else {
        panic!("{} objects in\n{written}", documents.len());
    };
    let again = again
        .decode_valid::<T>()
        .unwrap_or_else(|p| panic!("{p}\n{written}"));
    let value = |object: &T| serde_json::to_value(object).expect("an object is JSON");
    assert_eq!(value(&again), value(&object));
}
