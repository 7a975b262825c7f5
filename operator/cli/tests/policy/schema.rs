//! `trellis policy schema`.

use serde_json::Value;

use super::{policy, quiet, root};

#[test]
fn schema_matches_the_docs() {
    let run = policy(&["schema"]);
    let docs = std::fs::read_to_string(root().join("docs/policies/trellis.cedarschema")).unwrap();
    assert_eq!(quiet(&run), (0, docs.as_str()));
    assert!(
        run.out.contains("\n@version(\"1\")\nnamespace Trellis {\n"),
        "{}",
        run.out
    );
}

#[test]
fn json_schema_has_the_same_version_and_actions() {
    let run = policy(&["schema", "-o", "json"]);
    let schema: Value = serde_json::from_str(quiet(&run).1).unwrap();
    assert_eq!(schema["Trellis"]["annotations"]["version"], "1");
    let actions = schema["Trellis"]["actions"].as_object().unwrap();
    assert_eq!(actions.len(), 12);
    assert!(actions.contains_key("UseQueue"));
}
