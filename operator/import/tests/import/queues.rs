//! Queues and their parents.

use serde_json::Value;
use trellis_import::{ConversionOptions, ImportedDocument, import};

use super::{documents, import_text};

fn kueue(kind: &str, name: &str, spec: &str) -> String {
    format!(
        "apiVersion: kueue.x-k8s.io/v1beta1\nkind: {kind}\nmetadata: {{name: {name}}}\nspec: {spec}\n---\n"
    )
}

pub fn volcano(name: &str, spec: &str) -> String {
    format!(
        "apiVersion: scheduling.volcano.sh/v1beta1\nkind: Queue\nmetadata: {{name: {name}}}\nspec: {spec}\n---\n"
    )
}

/// Returns the name and the parent of each created queue.
pub fn queue_parents(imported: &[ImportedDocument]) -> Vec<(String, Value)> {
    let objects = imported.iter().flat_map(|document| &document.objects);
    objects
        .map(|object| {
            let object = serde_json::to_value(object).unwrap();
            let name = object["metadata"]["name"].as_str().unwrap().to_owned();
            (name, object["spec"]["parentName"].clone())
        })
        .collect()
}

pub fn queue(name: &str, parent: impl Into<Value>) -> (String, Value) {
    (name.to_owned(), parent.into())
}

/// Returns the paths and texts of the notes of one document.
pub fn note_texts(document: &ImportedDocument) -> Vec<String> {
    let notes = document.notes.iter();
    notes.map(|n| format!("{}: {}", n.path, n.text())).collect()
}

#[test]
fn undefined_cohort_is_created_with_the_first_queue() {
    let text = kueue("ClusterQueue", "a", "{cohort: c, queueingStrategy: Foo}")
        + &kueue("ClusterQueue", "b", "{cohort: c}")
        + &kueue("ClusterQueue", "d", "{cohort: c}");
    let imported = import_text(&text);
    let none = Value::Null;
    assert_eq!(
        queue_parents(&imported),
        [queue("c", none), queue("b", "c"), queue("d", "c")]
    );
    assert_eq!(imported[0].problems.len(), 1);
    assert_eq!(imported[0].objects, []);
    let notes = note_texts(&imported[1]);
    assert_eq!(notes.len(), 1, "{notes:?}");
    assert!(
        notes[0].starts_with("spec.cohort: \"c\" has no Cohort in the input, so a TrainingQueue"),
        "{notes:?}"
    );
    assert_eq!(imported[2].notes, []);
}

#[test]
fn parent_that_fails_to_convert_is_noted() {
    for text in [
        kueue("Cohort", "c", "{fairSharing: {weight: heavy}}")
            + &kueue("ClusterQueue", "b", "{cohort: c}"),
        volcano("c", "{dequeueStrategy: lifo}") + &volcano("b", "{parent: c}"),
    ] {
        let imported = import_text(&text);
        assert_eq!(imported[0].problems.len(), 1, "{text}");
        assert_eq!(queue_parents(&imported), [queue("b", "c")]);
        let notes = note_texts(&imported[1]);
        assert!(
            notes[0].contains("\"c\" could not be imported"),
            "{notes:?}"
        );
    }
}

#[test]
fn volcano_root_queue_is_created_once() {
    let capability = "{capability: {cpu: 1}}";
    let refused = "{capability: {cpu: 1}, dequeueStrategy: lifo}";
    let text = volcano("a", refused) + &volcano("b", capability) + &volcano("c", capability);
    let imported = import_text(&text);
    assert_eq!(
        queue_parents(&imported),
        [
            queue("root", Value::Null),
            queue("b", "root"),
            queue("c", "root")
        ]
    );
    assert!(note_texts(&imported[1])[0].contains("\"root\" is not in the input"));
}

/// In Kueue a ClusterQueue and a cohort may have the same name. In Trellis both are queues.
#[test]
fn cluster_queue_named_like_a_cohort_is_an_error() {
    let expected = "is also the name of a cohort, and in Trellis both are queues: rename the cohort, or the ClusterQueue with clusterQueue of its LocalQueues";
    let clash = kueue("ClusterQueue", "research", "{cohort: research}");
    let member = kueue("ClusterQueue", "vision", "{cohort: research}");
    let alone = kueue("ClusterQueue", "research", "{}");
    let cohort = kueue("Cohort", "research", "{}");
    for (text, at, left) in [
        (clash.clone(), 0, vec![]),
        (
            clash + &member,
            0,
            vec![queue("research", Value::Null), queue("vision", "research")],
        ),
        (
            member + &alone,
            1,
            vec![queue("research", Value::Null), queue("vision", "research")],
        ),
        (
            cohort.clone() + &alone,
            1,
            vec![queue("research", Value::Null)],
        ),
        (alone + &cohort, 0, vec![queue("research", Value::Null)]),
    ] {
        let imported = import_text(&text);
        assert_eq!(queue_parents(&imported), left, "{text}");
        let problems: Vec<_> = imported
            .iter()
            .flat_map(|imported_document| {
                imported_document
                    .problems
                    .iter()
                    .map(|p| (imported_document.document, p))
            })
            .collect();
        let [(document, problem)] = problems.as_slice() else {
            panic!("{problems:?}")
        };
        assert_eq!((*document, problem.field.as_str()), (at, "metadata.name"));
        assert_eq!(problem.message, expected);
    }
}

#[test]
fn duplicate_queue_names_are_an_error() {
    let text = volcano("a", "{}") + &kueue("ClusterQueue", "a", "{}");
    let imported = import_text(&text);
    assert_eq!(imported[0].objects.len(), 1);
    assert_eq!(imported[1].objects, []);
    assert_eq!(
        imported[1].problems[0].message,
        "becomes a second TrainingQueue \"a\": rename one of the two"
    );
}

#[test]
fn fair_sharing_of_the_configuration_reaches_queues_that_reclaim() {
    let configuration = |version: &str, sharing: &str| {
        format!(
            "apiVersion: config.kueue.x-k8s.io/{version}\nkind: Configuration\nnamespace: kueue-system\nfairSharing: {sharing}\n---\n"
        )
    };
    let queues = kueue(
        "ClusterQueue",
        "a",
        "{preemption: {reclaimWithinCohort: Any, borrowWithinCohort: {policy: LowerPriority}}}",
    ) + "---\n"
        + &kueue(
            "ClusterQueue",
            "b",
            "{preemption: {reclaimWithinCohort: LowerPriority}}",
        )
        + "---\n"
        + &kueue(
            "ClusterQueue",
            "c",
            "{preemption: {withinClusterQueue: LowerPriority}}",
        );
    for (version, sharing, expected) in [
        ("v1beta2", "{}", [Some("Any"), Some("LowerPriority"), None]),
        (
            "v1beta1",
            "{enable: true}",
            [Some("Any"), Some("LowerPriority"), None],
        ),
        ("v1beta1", "{enable: false}", [None, None, None]),
        ("v1beta1", "{}", [None, None, None]),
    ] {
        let imported = import_text(&(configuration(version, sharing) + &queues));
        assert_eq!(imported[0].objects, [], "{version} {sharing}");
        assert_eq!(note_texts(&imported[0]), Vec::<String>::new());
        let preemption = imported[1..].iter().map(|imported| {
            assert_eq!(imported.problems, []);
            serde_json::to_value(&imported.objects[0]).unwrap()["spec"]["preemption"].clone()
        });
        let preemption: Vec<_> = preemption.collect();
        let fair: Vec<_> = preemption.iter().map(|p| p["fairShare"].as_str()).collect();
        assert_eq!(fair, expected, "{version} {sharing}");
        let borrows = preemption[0].get("borrowWithinCohort").is_some();
        assert_eq!(borrows, expected[0].is_none(), "{version} {sharing}");
    }
    let stricter = configuration(
        "v1beta2",
        "{preemptionStrategies: [LessThanOrEqualToFinalShare]}",
    );
    let notes = note_texts(&import_text(&(stricter + &queues))[0]);
    assert!(notes[0].contains("LessThanInitialShare"), "{notes:?}");
}

#[test]
fn parent_from_another_system_is_noted() {
    let text = kueue("ClusterQueue", "a", "{}") + &volcano("b", "{parent: a}");
    let notes = note_texts(&import_text(&text)[1]);
    assert!(notes[0].contains("another system's document"), "{notes:?}");
}

/// `kubectl apply` removes fields that it applied before and that are missing now.
#[test]
fn changes_of_an_existing_queue_are_noted() {
    let existing = "apiVersion: trellis.dev/v1alpha1\nkind: TrainingQueue\nmetadata: {name: vision}\nspec: {parentName: research, defaultFor: {}, weight: 2}\n";
    let text = kueue(
        "ClusterQueue",
        "vision",
        "{cohort: root, queueingStrategy: StrictFIFO, fairSharing: {weight: 2}}",
    );
    let import_with = |existing: &str| {
        let existing = documents(existing);
        let existing = existing.iter().map(|document| document.decode().unwrap());
        let options = ConversionOptions {
            existing: existing.collect(),
            ..ConversionOptions::default()
        };
        import(&documents(&text), &options)
    };
    let notes = note_texts(&import_with(existing)[0]);
    for expected in [
        "spec.parentName: \"research\" is the value in the cluster's queue \"vision\", and applying this TrainingQueue changes it to \"root\"",
        "spec.defaultFor: {} is set in the cluster's queue \"vision\", and applying this TrainingQueue removes it",
        "spec.queueingStrategy: \"StrictFIFO\" is not set in the cluster's queue \"vision\", and applying this TrainingQueue adds it",
    ] {
        assert!(
            notes.iter().any(|n| n.starts_with(expected)),
            "{expected}: {notes:?}"
        );
    }
    assert!(!notes.iter().any(|n| n.contains("weight")), "{notes:?}");
    // An existing parent queue is not created again.
    let root = existing.replace("vision", "root");
    assert_eq!(
        queue_parents(&import_with(&root)),
        [queue("vision", "root")]
    );
}

/// Kueue's manager refuses a configuration with unknown fields.
#[test]
fn settings_of_the_kueue_configuration_are_noted() {
    let configuration = |fields: &str| {
        format!("apiVersion: config.kueue.x-k8s.io/v1beta1\nkind: Configuration\n{fields}\n")
    };
    for (fields, expected) in [
        ("fairSharingg: {enable: true}", vec!["fairSharingg"]),
        ("nonsense: 1", vec!["nonsense"]),
        ("fairSharing: {enabled: true}", vec!["fairSharing.enabled"]),
        (
            "resources: {excludeResourcePrefixes: [example.com/], transformations: [{input: a}], deviceClassMappings: [], more: 1}",
            vec![
                "resources.excludeResourcePrefixes",
                "resources.transformations",
                "resources.more",
            ],
        ),
        ("resources: {excludeResourcePrefixes: []}", vec![]),
        (
            "waitForPodsReady: {enable: true, timeout: 5m}",
            vec!["waitForPodsReady"],
        ),
        ("waitForPodsReady: {enable: false, timeout: 5m}", vec![]),
        (
            "admissionFairSharing: {usageHalfLifeTime: 1h}",
            vec!["admissionFairSharing"],
        ),
        (
            "featureGates: {TASBalancedPlacement: true, LendingLimit: true}",
            vec!["featureGates.LendingLimit"],
        ),
        (
            "metadata: {name: a}\nnamespace: b\nmetrics: {bindAddress: x}\nintegrations: {frameworks: [pod]}\nmanageJobsWithoutQueueName: true\ntls: {minVersion: a}",
            vec![],
        ),
    ] {
        let imported = import_text(&configuration(fields));
        assert_eq!(imported[0].problems, [], "{fields}");
        let paths: Vec<_> = imported[0].notes.iter().map(|n| n.path.as_str()).collect();
        assert_eq!(paths, expected, "{fields}");
    }
    // In v1beta2, the field itself enables the feature.
    let fields = "waitForPodsReady: {timeout: 5m}";
    let new = configuration(fields).replace("v1beta1", "v1beta2");
    assert_eq!(import_text(&new)[0].notes.len(), 1);
    assert_eq!(import_text(&configuration(fields))[0].notes, []);
    let wrong = import_text(&configuration(
        "featureGates: {TASBalancedPlacement: 'true'}",
    ));
    assert_eq!(
        wrong[0].problems[0].field,
        "featureGates.TASBalancedPlacement"
    );
}

#[test]
fn borrow_within_cohort_is_noted_with_fair_sharing() {
    let sharing =
        "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\nfairSharing: {}\n---\n";
    for (policy, with_sharing) in [("LowerPriority", 1), ("Never", 0)] {
        let queue = kueue(
            "ClusterQueue",
            "a",
            &format!(
                "{{preemption: {{reclaimWithinCohort: Any, borrowWithinCohort: {{policy: {policy}}}}}}}"
            ),
        );
        for (text, count) in [(queue.clone(), 0), (queue + sharing, with_sharing)] {
            let notes = note_texts(&import_text(&text)[0]);
            let path = "spec.preemption.borrowWithinCohort: ";
            let noted = notes.iter().filter(|note| note.starts_with(path));
            assert_eq!(noted.count(), count, "{notes:?}");
        }
    }
}

/// The flavor `default` contains every node and needs no object.
#[test]
fn missing_flavor_is_noted_once() {
    let flavor =
        |name: &str| format!("{{name: {name}, resources: [{{name: cpu, nominalQuota: 4}}]}}");
    let import_with = |name: &str, flavors: &[&str]| {
        let flavors: Vec<_> = flavors.iter().map(|name| flavor(name)).collect();
        let flavors = flavors.join(", ");
        let spec =
            format!("{{resourceGroups: [{{coveredResources: [cpu], flavors: [{flavors}]}}]}}");
        kueue("ClusterQueue", name, &spec)
    };
    let text = import_with("a", &["default", "spot", "h100"])
        + &import_with("b", &["spot"])
        + &kueue("ResourceFlavor", "h100", "{}");
    let imported = import_text(&text);
    let of_a = note_texts(&imported[0]);
    assert_eq!(of_a.len(), 1, "{of_a:?}");
    assert!(
        of_a[0].starts_with(
            "spec.resourceGroups[0].flavors[1].name: \"spot\" has no ResourceFlavor in the input"
        ),
        "{of_a:?}"
    );
    assert_eq!(imported[1].notes, []);
}
