//! Notes about facts of the files that the user might not expect.

use super::{job, scenario, simulate_text};

/// Kinds that the simulation ignores get one note.
/// A dump of a cluster contains running work as Pods, and many other objects.
#[test]
fn ignored_kind_is_noted_once() {
    let group = |name: &str| {
        format!(
            "---\napiVersion: trellis.dev/v1alpha1\nkind: PodGroup\nmetadata: {{name: {name}}}\nspec: {{minMember: 1, queueName: default, priority: 0, groups: []}}\n"
        )
    };
    let events = format!("  - {{at: 0s, apply: {}, runtime: 1s}}\n", job("a", 1));
    let text = [scenario(&events), group("x"), group("y")].concat();
    let run = simulate_text(&text, &[]);
    assert_eq!(run.code, 0, "{run:?}");
    assert_eq!(run.err, "note: <stdin>: PodGroup is ignored\n");
}

/// A file without nodes is most often a mistake, because no job can run.
#[test]
fn simulation_without_nodes_is_noted() {
    let events = format!("  - {{at: 0s, apply: {}, runtime: 1s}}\n", job("a", 1));
    let text =
        format!("apiVersion: trellis.dev/v1alpha1\nkind: Scenario\nspec:\n  events:\n{events}");
    let run = simulate_text(&text, &[]);
    assert_eq!(
        (run.code, run.err.as_str()),
        (
            0,
            "note: there are no nodes, so no job is placed: add some (docs/simulate.md)\n"
        )
    );
}

/// A scenario may end without nodes, if a node existed before.
#[test]
fn simulation_that_deletes_its_last_node_has_no_note() {
    let events = format!(
        "  - {{at: 0s, apply: {}, runtime: 1s}}\n  - {{at: 5s, delete: {{kind: Node, name: gpu-0}}}}\n  - {{at: 5s, delete: {{kind: Node, name: gpu-1}}}}\n",
        job("a", 1)
    );
    let run = simulate_text(&scenario(&events), &[]);
    assert_eq!((run.code, run.err.as_str()), (0, ""), "{run:?}");
}

/// The simulation notes that it reads no object of Kueue.
/// A ClusterQueue resembles a TrainingQueue, so a user may expect that it has an effect.
#[test]
fn foreign_object_is_noted_with_the_import_command() {
    let foreign = "---\napiVersion: kueue.x-k8s.io/v1beta2\nkind: ClusterQueue\nmetadata: {name: q}\nspec: {}\n";
    let events = format!("  - {{at: 0s, apply: {}, runtime: 1s}}\n", job("a", 1));
    let run = simulate_text(&[&scenario(&events), foreign].concat(), &[]);
    assert_eq!(
        (run.code, run.err.as_str()),
        (
            0,
            "note: <stdin>: ClusterQueue of kueue.x-k8s.io/v1beta2 is ignored: convert it with `trellis import`\n"
        )
    );
}

/// A namespace in no file counts as one without labels.
/// A note reports this if labels matter.
#[test]
fn namespace_missing_from_the_files_is_noted() {
    let events = format!("  - {{at: 0s, apply: {}, runtime: 1s}}\n", job("a", 1));
    let queue = "---\napiVersion: trellis.dev/v1alpha1\nkind: TrainingQueue\nmetadata: {name: q}\nspec: {defaultFor: {matchLabels: {trellis.dev/team: a}}, namespaceSelector: {}}\n";
    let text = [&scenario(&events), queue].concat();
    let run = simulate_text(&text, &[]);
    let note = "note: namespace \"default\" is in no file: ";
    assert!(run.err.starts_with(note), "{}", run.err);
    let namespace = "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: default, labels: {trellis.dev/team: a}}\n";
    let run = simulate_text(&[&text, namespace].concat(), &[]);
    assert_eq!((run.code, run.err.as_str()), (0, ""));
}
