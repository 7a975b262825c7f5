//! Flavors and topologies of a dump.

use serde_json::Value;

use super::{Run, plan_with};

const NODE: &str = "
apiVersion: v1
kind: Node
metadata: {name: spot-0, labels: {pool: spot}}
spec: {taints: [{key: spot, effect: NoSchedule}]}
status:
  allocatable: {cpu: '512', memory: 8Ti, pods: '110', nvidia.com/gpu: '32'}
  conditions: [{type: Ready, status: 'True'}]
";
const QUEUE: &str = "
apiVersion: trellis.dev/v1alpha1
kind: TrainingQueue
metadata: {name: cheap}
spec:
  namespaceSelector: {}
  defaultFor: {}
  resourceGroups:
  - coveredResources: [cpu, memory, nvidia.com/gpu]
    flavors:
    - name: spot
      resources:
      - {name: cpu, nominalQuota: 512}
      - {name: memory, nominalQuota: 8Ti}
      - {name: nvidia.com/gpu, nominalQuota: 32}
";

/// Plans the job of 32 GPUs on the node, with a flavor of this spec.
fn with_flavor(spec: &str) -> Run {
    let flavor = format!(
        "apiVersion: trellis.dev/v1alpha1\nkind: ResourceFlavor\nmetadata: {{name: spot}}\nspec: {spec}\n"
    );
    let dump = [NODE, QUEUE, &flavor].join("---\n");
    plan_with(&["-f", "job.yaml", "--nodes", "-", "-o", "json"], &dump)
}

#[test]
fn pods_get_labels_and_tolerations_of_their_flavor() {
    let taint = "nodeTaints: [{key: spot, effect: NoSchedule}]";
    let run = with_flavor(&format!("{{{taint}}}"));
    assert_eq!(run.code, 1, "{run:?}");
    assert!(run.err.contains("FlavorNotFound"), "{}", run.err);

    let brings = "tolerations: [{key: spot, operator: Exists}]";
    let run = with_flavor(&format!("{{{taint}, {brings}}}"));
    assert_eq!(run.code, 0, "{run:?}");
    let list: Value = serde_json::from_str(&run.out).unwrap();
    let objects = list["items"].as_array().unwrap();
    let pods: Vec<_> = objects.iter().filter(|o| o["kind"] == "Pod").collect();
    assert_eq!(pods.len(), 4);
    for pod in pods {
        let tolerations = pod["spec"]["tolerations"].as_array().unwrap();
        let keys: Vec<_> = tolerations.iter().map(|t| t["key"].as_str()).collect();
        let all = ["trellis.dev/dedicated", "nvidia.com/gpu", "spot"];
        assert_eq!(keys, all.map(Some));
    }
}

/// Plans the job on full nodes of a flavor that may grow, with these further objects.
fn plan_with_growth(objects: &[&str]) -> Run {
    plan_with_labelled_growth("", objects)
}

/// Like [`plan_with_growth`], with these fields of a new node.
fn plan_with_labelled_growth(fields: &str, objects: &[&str]) -> Run {
    let flavor = "apiVersion: trellis.dev/v1alpha1\nkind: ResourceFlavor\nmetadata: {name: spot}\nspec: {nodeLabels: {pool: spot}, provisioning: {by: Placeholders, maxNodes: 8, node: {allocatable: {cpu: 128, memory: 2Ti, nvidia.com/gpu: 8}}}}\n";
    let flavor = flavor.replacen("allocatable", &format!("{fields}allocatable"), 1);
    let queue = format!("{}  provisioning: {{order: Nominal}}\n", QUEUE.trim_start());
    let dump = [&[queue.as_str(), &flavor], objects].concat().join("---\n");
    let nodes = ["--nodes", "nodes.yaml", "--nodes", "-"];
    let run = plan_with(&[["-f", "job.yaml"].as_slice(), &nodes].concat(), &dump);
    assert_eq!(run.code, 1, "{run:?}");
    run
}

#[test]
fn waiting_job_is_told_the_new_nodes_with_which_it_would_start() {
    let run = plan_with_growth(&[]);
    let told = "the job would start with 4 new nodes of flavor \"spot\"";
    assert!(run.out.contains(told), "{run:?}");
}

#[test]
fn new_nodes_may_have_labels_of_kubernetes() {
    let zone = "labels: {topology.kubernetes.io/zone: a, node.kubernetes.io/instance-type: p5}, ";
    let run = plan_with_labelled_growth(zone, &[]);
    assert!(run.out.contains("would start with 4 new nodes"), "{run:?}");
}

#[test]
fn job_beyond_a_resource_quota_is_told_no_new_nodes() {
    let quota = "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: gpus, namespace: team-a}\nspec: {hard: {requests.nvidia.com/gpu: 8}}\nstatus: {hard: {requests.nvidia.com/gpu: 8}, used: {requests.nvidia.com/gpu: 0}}\n";
    let run = plan_with_growth(&[quota]);
    assert!(run.out.contains("ResourceQuotaExceeded"), "{run:?}");
    assert!(!run.out.contains("would start with"), "{run:?}");
}

#[test]
fn pool_may_have_no_nodes_yet() {
    let flavor = "apiVersion: trellis.dev/v1alpha1\nkind: ResourceFlavor\nmetadata: {name: spot}\nspec: {provisioning: {by: Placeholders, maxNodes: 8, node: {allocatable: {cpu: 128, memory: 2Ti, nvidia.com/gpu: 8}}}}\n";
    for after in ["", ", afterSeconds: 0"] {
        let queue = format!(
            "{}  provisioning: {{order: Nominal{after}}}\n",
            QUEUE.trim_start()
        );
        let run = plan_with(
            &["-f", "job.yaml", "--nodes", "-"],
            &format!("{queue}---\n{flavor}"),
        );
        assert_eq!(run.code, 1, "{run:?}");
        assert!(run.out.contains("would start with 4 new nodes"), "{run:?}");
        assert!(!run.out.contains("times out"), "{run:?}");
    }
}

#[test]
fn waiting_job_is_told_the_policy_that_denies_new_nodes() {
    let policy = "apiVersion: trellis.dev/v1alpha1\nkind: ClusterJobPolicy\nmetadata: {name: nodes}\nspec:\n  cedar: |\n    @id(\"all\") permit(principal, action, resource);\n    @id(\"no-new-nodes\") forbid(principal, action == Trellis::Action::\"ProvisionNodes\", resource);\n";
    let run = plan_with_growth(&[policy]);
    assert!(!run.out.contains("the job would start with"), "{run:?}");
    assert!(run.out.contains("nodes/no-new-nodes"), "{run:?}");
}

#[test]
fn invalid_topology_is_reported() {
    let topology = "apiVersion: trellis.dev/v1alpha1\nkind: Topology\nmetadata: {name: network}\nspec: {levels: [{nodeLabel: rack}, {nodeLabel: rack}]}\n";
    let run = plan_with(
        &["-f", "job.yaml", "--nodes", "nodes.yaml", "--nodes", "-"],
        topology,
    );
    assert_eq!(run.code, 2, "{run:?}");
    assert!(
        run.err
            .contains("spec.levels: two levels must not have the same nodeLabel: remove one"),
        "{}",
        run.err
    );
    let good = topology.replacen("rack", "block", 1);
    let run = plan_with(
        &["-f", "job.yaml", "--nodes", "nodes.yaml", "--nodes", "-"],
        &good,
    );
    assert_eq!((run.code, run.err.as_str()), (0, ""), "{run:?}");
}
