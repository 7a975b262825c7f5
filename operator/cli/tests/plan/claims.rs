//! Claims that are bound with the first pod of their job.

use super::{file, plan_with};

const CLASS: &str = "---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: disks}
volumeBindingMode: WaitForFirstConsumer
provisioner: ";

fn claim(name: &str) -> String {
    format!(
        "---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {{name: {name}, namespace: team-a, uid: {name}}}
spec:
  storageClassName: disks
  accessModes: [ReadWriteMany]
  resources: {{requests: {{storage: 10Gi}}}}
status: {{phase: Pending}}
"
    )
}

fn disk(name: &str, nodes: &str) -> String {
    format!(
        "---
apiVersion: v1
kind: PersistentVolume
metadata: {{name: {name}}}
spec:
  storageClassName: disks
  accessModes: [ReadWriteMany]
  capacity: {{storage: 10Gi}}
  nodeAffinity: {{required: {{nodeSelectorTerms: [{{matchExpressions: [
    {{key: kubernetes.io/hostname, operator: In, values: [{nodes}]}}]}}]}}}}
status: {{phase: Available}}
"
    )
}

/// A job of one small pod that mounts a claim.
fn job(name: &str, claim: &str) -> String {
    let job = file("job.yaml").replace("name: llm", &format!("name: {name}"));
    let single_pod = job.replace("replicas: 4", "replicas: 1");
    let single_pod = single_pod
        .replace("gpus: 8", "gpus: 1")
        .replace("cpu: 96", "cpu: 8");
    format!("---\n{single_pod}    mounts: [{{claimName: {claim}, path: /data}}]\n")
}

fn plan_objects(objects: &[String]) -> (i32, String) {
    let run = plan_with(&["--nodes", "nodes.yaml", "-f", "-"], &objects.concat());
    (run.code, run.out + &run.err)
}

#[test]
fn plan_lists_bindings_and_binds_each_volume_once() {
    let static_class = format!("{CLASS}kubernetes.io/no-provisioner\n");
    let files = [
        job("one", "a"),
        job("two", "b"),
        claim("a"),
        claim("b"),
        static_class,
    ];
    let plan_with = |extra: &[String]| plan_objects(&[&files[..], extra].concat());
    let (code, out) = plan_with(&[disk("disk-1", "gpu-01"), disk("disk-2", "gpu-02")]);
    assert_eq!(code, 0, "{out}");
    for words in [
        "claims   a: bound to volume disk-1",
        "claims   b: bound to volume disk-2",
    ] {
        assert!(out.contains(words), "{out}");
    }
    let (code, out) = plan_with(&[disk("disk-1", "gpu-01")]);
    assert_eq!(code, 1, "{out}");
    assert!(out.contains("a: bound to volume disk-1"), "{out}");
    let words = "ClaimNotBound: PersistentVolumeClaim \"b\" is not bound: no PersistentVolume";
    assert!(out.contains(words), "{out}");
    // A claim that both jobs mount has one volume.
    let shared = [
        job("one", "a"),
        job("two", "a"),
        files[2].clone(),
        files[4].clone(),
    ];
    let wide = disk("disk-1", "gpu-01, gpu-02");
    let (code, out) = plan_objects(&[&shared[..], &[wide]].concat());
    assert_eq!(
        (code, out.matches("bound to volume").count()),
        (0, 1),
        "{out}"
    );
}

#[test]
fn claim_without_a_volume_is_provisioned() {
    let dynamic_class = format!("{CLASS}disks.example\n");
    let (code, out) = plan_objects(&[job("one", "a"), claim("a"), dynamic_class]);
    assert_eq!(code, 0, "{out}");
    assert!(
        out.contains("claims   a: provisioned for node gpu-0"),
        "{out}"
    );
    let wide = job("one", "a").replace("replicas: 1", "replicas: 9");
    let alone = claim("a").replace("ReadWriteMany", "ReadWriteOnce");
    let (code, out) = plan_objects(&[wide, alone, format!("{CLASS}disks.example\n")]);
    assert_eq!(code, 1, "{out}");
    for words in [
        "ExceedsTopology: 9 pods must be on one node",
        "PersistentVolumeClaim \"a\", which is ReadWriteOnce and not bound yet, keeps them together",
    ] {
        assert!(out.contains(words), "{out}");
    }
}
