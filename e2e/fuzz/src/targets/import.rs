//! Documents of Kueue, Volcano, KAI, Kubeflow and KubeRay.

use trellis_api::document;
use trellis_api::{ResourceFlavor, Topology, TrainingJob, TrainingQueue};
use trellis_import::{ConversionOptions, import, render_json, render_yaml};

use super::{check_problem, decode, readable_documents};
use crate::Target;

/// The target. Each document becomes valid objects or names its problems, and the report of its
/// fields has a place and a reason for each.
pub const TARGET: Target = Target {
    check,
    words: &[
        "apiVersion",
        "kind",
        "metadata",
        "name",
        "namespace",
        "labels",
        "spec",
        "replicas",
        "template",
        "containers",
        "resources",
        "requests",
        "limits",
        "cpu",
        "memory",
        "nvidia.com/gpu",
        "nominalQuota",
        "borrowingLimit",
        "cohort",
        "parallelism",
        "completions",
        "minAvailable",
        "partitionPolicy",
        "overQuotaWeight",
        "kai.scheduler/queue",
        "kai.scheduler/segment-size",
        "1Gi",
        "500m",
        "2147483648",
        "---",
        "- ",
        "  ",
    ],
    inputs_per_case: 8,
};

fn check(input: &[u8]) {
    let Some(text) = crate::text(input) else {
        return;
    };
    let documents = readable_documents(text);
    let imported = import(&documents, &ConversionOptions::default());
    assert_eq!(
        imported.len(),
        documents.len(),
        "each document has a result"
    );
    for (index, one) in imported.iter().enumerate() {
        assert_eq!(one.document, index);
        assert!(!one.from.is_empty());
        for problem in &one.problems {
            check_problem(problem, text);
        }
        if !one.problems.is_empty() {
            assert!(one.objects.is_empty(), "{}: problems and objects", one.from);
        }
        for note in &one.notes {
            assert!(!note.path.is_empty() && !note.why.is_empty(), "{note:?}");
        }
    }
    let _ = render_json(&imported).to_string();
    let written = render_yaml(&imported);
    let objects = document::split(&written).unwrap_or_else(|p| panic!("{p}\n{written}"));
    let created: usize = imported.iter().map(|one| one.objects.len()).sum();
    assert_eq!(objects.len(), created, "{written}");
    for object in &objects {
        let is_valid = match object.kind.as_str() {
            "TrainingJob" => decode::<TrainingJob>(object, &written).is_some(),
            "TrainingQueue" => decode::<TrainingQueue>(object, &written).is_some(),
            "Topology" => decode::<Topology>(object, &written).is_some(),
            "ResourceFlavor" => decode::<ResourceFlavor>(object, &written).is_some(),
            _ => true,
        };
        assert!(is_valid, "an imported object is refused:\n{written}");
    }
}
