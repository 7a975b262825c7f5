//! The objects and notes of every input.

use std::fmt::Write as _;

use k8s_openapi::api::scheduling::v1::PriorityClass;
use trellis_api::document;
use trellis_api::{ResourceFlavor, Topology, TrainingJob, TrainingQueue};
use trellis_import::{render_json, render_yaml};

use super::{folder, import_object, import_text, inputs};

#[test]
fn inputs_convert_to_the_expected_yaml() {
    for (name, text) in inputs() {
        let imported = import_text(&text);
        let mut output = render_yaml(&imported);
        for document in imported
            .iter()
            .filter(|document| document.objects.is_empty())
        {
            let _ = writeln!(output, "--- nothing of {}", document.from);
            for note in &document.notes {
                let _ = writeln!(output, "{}: {}", note.path, note.text());
            }
            for problem in &document.problems {
                let _ = writeln!(output, "{problem}");
            }
        }
        insta::with_settings!({prepend_module_to_snapshot => false, omit_expression => true}, {
            insta::assert_snapshot!(name, output);
        });
    }
}

#[test]
fn inputs_convert_to_the_expected_json() {
    let text = inputs()
        .into_iter()
        .find(|(name, _)| name == "volcano-queues")
        .unwrap()
        .1;
    insta::with_settings!({prepend_module_to_snapshot => false, omit_expression => true}, {
        insta::assert_snapshot!("json", serde_json::to_string_pretty(&render_json(&import_text(&text))).unwrap());
    });
}

/// The page shows the result of its example without the comments.
#[test]
fn example_in_the_docs_matches_its_result() {
    let page = folder().join("../../../../../docs/import.md");
    let page = std::fs::read_to_string(page).unwrap();
    let blocks = page.split("```yaml\n").skip(1);
    let blocks: Vec<_> = blocks
        .map(|rest| rest.split("```").next().unwrap())
        .collect();
    let [before, after] = blocks.as_slice() else {
        panic!("{blocks:?}")
    };
    let example: serde_json::Value = document::split(after).unwrap()[0].decode().unwrap();
    assert_eq!(import_object(before), example);
}

/// `trellis plan` and the API server accept the printed objects.
#[test]
fn converted_objects_are_valid() {
    let mut count = 0;
    for (name, text) in inputs() {
        for document in document::split(&render_yaml(&import_text(&text))).unwrap() {
            let violations = match document.kind.as_str() {
                "TrainingJob" => document.decode_valid::<TrainingJob>().err(),
                "TrainingQueue" => document.decode_valid::<TrainingQueue>().err(),
                "ResourceFlavor" => document.decode_valid::<ResourceFlavor>().err(),
                "Topology" => document.decode_valid::<Topology>().err(),
                "PriorityClass" => document.decode::<PriorityClass>().err(),
                other => panic!("{other}"),
            };
            assert_eq!(violations, None, "{name}");
            count += 1;
        }
    }
    assert!(count > 15, "{count}");
}
