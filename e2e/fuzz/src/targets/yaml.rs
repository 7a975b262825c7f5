//! Files of objects: YAML, lists, positions of problems.

use garde::Validate;
use kube::Resource;
use serde::Serialize;
use serde::de::DeserializeOwned;
use trellis_api::document;

use super::{DOCUMENT_WORDS, ObjectCheck, check_object, readable_documents};
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
        check_object::<RoundTrip>(document, text);
    }
}

/// An object that is accepted reads the same after it is written.
struct RoundTrip;

impl ObjectCheck for RoundTrip {
    fn check<T>(object: T)
    where
        T: DeserializeOwned + Serialize + Validate<Context = ()> + Resource<DynamicType = ()>,
    {
        let written =
            document::to_yaml(&object).expect("an object that is accepted can be written");
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
}
