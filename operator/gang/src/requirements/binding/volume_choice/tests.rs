use serde_json::{Value, json};
use trellis_scheduler::{NodeName, Resources};

use super::*;

const HOST: &str = "kubernetes.io/hostname";

/// Returns claims of the class "late" with these access modes and sizes, volumes that these nodes
/// reach, and the nodes "a" to "d".
fn candidates(
    claims: &[(&str, &str, &str)],
    volumes: &[(&str, &[&str])],
    provisions: bool,
) -> BindingCandidates {
    let claim = |(name, mode, size): &(&str, &str, &str)| {
        let claim = json!({"metadata": {"name": name, "namespace": "ns", "uid": name},
            "status": {"phase": "Pending"},
            "spec": {"storageClassName": "late", "accessModes": [mode],
                "resources": {"requests": {"storage": size}}}});
        ((*name).to_owned(), Arc::new(decoded(claim)))
    };
    let volume = |(name, nodes): &(&str, &[&str])| {
        let node_terms =
            json!([{"matchExpressions": [{"key": HOST, "operator": "In", "values": nodes}]}]);
        let size = nodes.len().saturating_add(10);
        Arc::new(decoded(
            json!({"metadata": {"name": name}, "status": {"phase": "Available"},
            "spec": {"storageClassName": "late", "capacity": {"storage": size.to_string()},
                "accessModes": ["ReadWriteOnce", "ReadWriteMany", "ReadWriteOncePod"],
                "nodeAffinity": {"required": {"nodeSelectorTerms": node_terms}}}}),
        ))
    };
    let provisioner = match provisions {
        true => "disks.example",
        false => "kubernetes.io/no-provisioner",
    };
    let class = decoded(
        json!({"metadata": {"name": "late"}, "provisioner": provisioner,
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowedTopologies": [{"matchLabelExpressions": [{"key": HOST, "values": ["a", "b", "c"]}]}]}),
    );
    let node = |name: &str| {
        let mut node = Node::new(NodeName::new(name), Resources::new());
        node.labels.insert(HOST.to_owned(), name.to_owned());
        (name.to_owned(), node)
    };
    BindingCandidates {
        claims: claims.iter().map(claim).collect(),
        classes: [("late".to_owned(), Arc::new(class))].into(),
        volumes: volumes.iter().map(volume).collect(),
        nodes: ["a", "b", "c", "d"].map(node).into(),
        reserved_volumes: BTreeSet::new(),
    }
}

fn decoded<T: serde::de::DeserializeOwned>(object: Value) -> T {
    serde_json::from_value(object).unwrap()
}

fn mount_on(claim: &str, nodes: &[&str]) -> (String, ClaimMount) {
    let mount = ClaimMount {
        nodes: nodes.iter().map(|n| (*n).to_owned()).collect(),
        pods: 2,
    };
    (claim.to_owned(), mount)
}

fn bind_volume(claim: &str, volume: &str) -> (String, BindingStep) {
    (claim.to_owned(), BindingStep::BindVolume(volume.to_owned()))
}

fn set(nodes: &[&str]) -> BTreeSet<String> {
    nodes.iter().map(|n| (*n).to_owned()).collect()
}

const SHARED: (&str, &str, &str) = ("data", "ReadWriteMany", "10");

#[test]
fn claim_gets_the_smallest_volume_that_all_nodes_reach() {
    let stock = candidates(
        &[SHARED],
        &[
            ("abc", &["a", "b", "c"]),
            ("a", &["a"]),
            ("ab", &["a", "b"]),
        ],
        false,
    );
    for (nodes, volume) in [
        (&["a"] as &[&str], "a"),
        (&["a", "b"], "ab"),
        (&["b"], "ab"),
        (&["a", "c"], "abc"),
    ] {
        let steps = choose_volumes(&[mount_on("data", nodes)].into(), &stock).unwrap();
        assert_eq!(steps, [bind_volume("data", volume)], "{nodes:?}");
    }
    let failure = choose_volumes(&[mount_on("data", &["a", "b", "d"])].into(), &stock).unwrap_err();
    assert_eq!(failure.reason, Reason::ClaimNotBound);
    assert_eq!(
        failure.nodes,
        set(&["d"]),
        "the node that does not reach the nearest volume"
    );
    let text = "from all 3 of its pods' nodes: node \"d\" does not reach the nearest";
    assert!(failure.message.contains(text), "{}", failure.message);
}

#[test]
fn smaller_claim_takes_the_smaller_volume_and_none_is_shared() {
    let large = ("a-large", "ReadWriteOnce", "12");
    let small = ("b-small", "ReadWriteOnce", "1");
    let mounts: ClaimMounts = [mount_on(large.0, &["a"]), mount_on(small.0, &["a"])].into();
    let volumes: [(&str, &[&str]); 2] = [("x", &["a"]), ("y", &["a", "b"])];
    let mut stock = candidates(&[large, small], &volumes, false);
    let steps = choose_volumes(&mounts, &stock).unwrap();
    assert_eq!(
        steps,
        [bind_volume(small.0, "x"), bind_volume(large.0, "y")]
    );
    stock.reserved_volumes = set(&["y"]);
    let failure = choose_volumes(&mounts, &stock).unwrap_err();
    assert!(
        failure
            .message
            .contains("\"a-large\" is not bound: no PersistentVolume")
    );
    assert!(failure.nodes.is_empty(), "no other node helps");
}

#[test]
fn volume_is_provisioned_on_a_node_that_the_class_allows() {
    let stock = candidates(&[SHARED], &[("a", &["a"])], true);
    let steps = |nodes: &[&str]| choose_volumes(&[mount_on("data", nodes)].into(), &stock);
    assert_eq!(steps(&["a"]).unwrap(), [bind_volume("data", "a")]);
    let provisioned = BindingStep::Provision("b".to_owned());
    assert_eq!(
        steps(&["c", "b"]).unwrap(),
        [("data".to_owned(), provisioned)]
    );
    assert_eq!(steps(&["b", "d"]).unwrap_err().nodes, set(&["d"]));
}

#[test]
fn claim_waits_while_binding_or_provisioning_is_under_way() {
    let step_after = |change: Value, node: &str| {
        let mut stock = candidates(&[SHARED], &[("v", &["a"])], true);
        let claim = Arc::make_mut(stock.claims.get_mut("data").unwrap());
        let volume = Arc::make_mut(&mut stock.volumes[0]);
        if let Some(annotations) = change.get("annotations") {
            claim.metadata.annotations = decoded(annotations.clone());
        }
        if let Some(claim_ref) = change.get("claimRef") {
            volume.spec.claim_ref = decoded(claim_ref.clone());
        }
        if let Some(phase) = change.get("phase") {
            claim.status.phase = decoded(phase.clone());
            claim.spec.volume_name = decoded(change["volume"].clone());
        }
        choose_volumes(&[mount_on("data", &[node])].into(), &stock)
            .map(|mut steps| steps.remove(0).1)
            .map_err(|failure| (failure.reason.as_str(), failure.message))
    };
    let claim_ref = json!({"claimRef": {"namespace": "ns", "name": "data", "uid": "data"}});
    assert_eq!(step_after(claim_ref.clone(), "a"), Ok(BindingStep::Wait));
    let (reason, message) = step_after(claim_ref, "b").unwrap_err();
    assert_eq!(reason, "ClaimNotBound");
    assert!(message.contains("does not reach the nearest"), "{message}");
    // Another scheduler or an earlier plan has selected the node.
    let selected = json!({"annotations": {crate::observed::SELECTED_NODE: "b"}});
    assert_eq!(step_after(selected.clone(), "b"), Ok(BindingStep::Wait));
    let (_, message) = step_after(selected, "c").unwrap_err();
    assert!(
        message.contains("is being provisioned for node \"b\""),
        "{message}"
    );
    let own_plan =
        json!({"annotations": {crate::observed::SELECTED_NODE: "b", "trellis.dev/plan": "h"}});
    assert_eq!(
        step_after(own_plan, "c"),
        Ok(BindingStep::Provision("c".to_owned()))
    );
    let bound = |volume: &str| json!({"phase": "Bound", "volume": volume});
    assert_eq!(step_after(bound("v"), "a"), Ok(BindingStep::Bound));
    assert_eq!(
        step_after(bound("not-shown-yet"), "a"),
        Ok(BindingStep::Wait)
    );
    let (_, message) = step_after(bound("v"), "b").unwrap_err();
    assert!(message.contains("has volume \"v\", which node \"b\" does not reach"));
    assert_eq!(
        step_after(json!({"phase": "Pending", "volume": "v"}), "a"),
        Ok(BindingStep::Wait)
    );
    let (_, message) = step_after(json!({"phase": "Lost", "volume": "v"}), "a").unwrap_err();
    assert!(message.contains("has lost its volume"), "{message}");
}

#[test]
fn access_modes_limit_nodes_and_pods_of_a_claim() {
    let choose = |mode: &str, nodes: &[&str]| {
        let stock = candidates(&[("data", mode, "1")], &[("ab", &["a", "b"])], false);
        choose_volumes(&[mount_on("data", nodes)].into(), &stock).map_err(|failure| failure.message)
    };
    assert!(choose("ReadWriteMany", &["a", "b"]).is_ok());
    assert!(choose("ReadWriteOnce", &["a"]).is_ok());
    let message = choose("ReadWriteOnce", &["a", "b"]).unwrap_err();
    assert!(message.contains("they must be on one"), "{message}");
    let message = choose("ReadWriteOncePod", &["a"]).unwrap_err();
    assert!(
        message.contains("is ReadWriteOncePod, and 2 pods mount it"),
        "{message}"
    );
    let stock = candidates(&[], &[], false);
    let missing = choose_volumes(&[mount_on("data", &["a"])].into(), &stock).unwrap_err();
    assert_eq!(missing.reason, Reason::ClaimNotFound);
}
