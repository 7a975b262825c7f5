//! Ranks and torchrun's variables.

use std::sync::Arc;

use trellis_compiler::{DnsPeer, PodPlacement, Settings, Surroundings, compile};

use super::support::{
    PLACEMENT, compiled, env, first_pod, found, job, one_group, resolved, value_of,
};

/// A task group on one line, with the fields in `rest`.
fn group(name: &str, rest: &str) -> String {
    format!(
        "- {{name: {name}, image: busybox, resources: {{limits: {{cpu: 1, memory: 1Gi}}}}, {rest}}}\n"
    )
}

#[test]
fn the_coordinator_has_rank_0_wherever_it_stands() {
    let groups = [
        group("data", "replicas: 2"),
        group("worker", "replicas: 3"),
        group("chief", "replicas: 2, role: Coordinator"),
    ];
    let job = compiled(job(&format!(
        "framework: PyTorch\ntaskGroups:\n{}",
        groups.concat()
    )));
    let mut ranks = Vec::new();
    for group in job.groups() {
        for index in 0..group.replicas() {
            let pod = group.pod(index, &PLACEMENT);
            let rank = value_of(&pod, "TRELLIS_RANK").unwrap();
            assert_eq!(value_of(&pod, "PET_NODE_RANK").as_ref(), Some(&rank));
            assert_eq!(value_of(&pod, "RANK").as_ref(), Some(&rank));
            assert_eq!(
                value_of(&pod, "PET_MASTER_ADDR").unwrap(),
                "llm-chief-0.llm.team-a.svc.cluster.local"
            );
            assert_eq!(value_of(&pod, "TRELLIS_WORLD_SIZE").unwrap(), "7");
            ranks.push((pod.metadata.name.unwrap(), rank));
        }
    }
    let expected = [
        ("llm-data-0", "2"),
        ("llm-data-1", "3"),
        ("llm-worker-0", "4"),
        ("llm-worker-1", "5"),
        ("llm-worker-2", "6"),
        ("llm-chief-0", "0"),
        ("llm-chief-1", "1"),
    ];
    let ranks: Vec<_> = ranks
        .iter()
        .map(|(n, r)| (n.as_str(), r.as_str()))
        .collect();
    assert_eq!(ranks, expected);
    let first: Vec<_> = job.groups().iter().map(|g| g.first_rank()).collect();
    assert_eq!(first, [2, 4, 0]);
}

#[test]
fn torchrun_with_many_processes_a_pod() {
    let job = one_group(
        "PyTorch",
        "replicas: 4, gpus: 8, env: [{name: A, value: $(TRELLIS_RANK)}]",
    );
    let pod = job.groups()[0].pod(3, &PLACEMENT);
    let address = "llm-worker-0.llm.team-a.svc.cluster.local";
    let expected = [
        ("TRELLIS_JOB", "llm"),
        ("TRELLIS_GROUP", "worker"),
        ("TRELLIS_INDEX", "3"),
        ("TRELLIS_RANK", "3"),
        ("TRELLIS_WORLD_SIZE", "4"),
        ("TRELLIS_ATTEMPT", "1"),
        ("PET_NNODES", "4"),
        ("PET_NPROC_PER_NODE", "8"),
        ("PET_NODE_RANK", "3"),
        ("PET_MASTER_ADDR", address),
        ("PET_MASTER_PORT", "29500"),
        ("MASTER_ADDR", address),
        ("MASTER_PORT", "29500"),
        ("A", "$(TRELLIS_RANK)"),
    ];
    let env = env(&pod);
    let env: Vec<_> = env.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
    assert_eq!(env, expected);
}

#[test]
fn rank_and_world_size_only_where_every_pod_is_one_process() {
    for (gpus, processes, expected) in [(0, "1", Some("2")), (1, "1", Some("2")), (2, "2", None)] {
        let job = one_group("PyTorch", &format!("replicas: 2, gpus: {gpus}"));
        let pod = job.groups()[0].pod(1, &PLACEMENT);
        assert_eq!(value_of(&pod, "WORLD_SIZE").as_deref(), expected, "{gpus}");
        assert_eq!(value_of(&pod, "RANK").is_some(), expected.is_some());
        assert_eq!(
            value_of(&pod, "PET_NPROC_PER_NODE").as_deref(),
            Some(processes)
        );
    }
    let mixed = [group("chief", "gpus: 1"), group("worker", "gpus: 8")];
    let job = compiled(job(&format!(
        "framework: PyTorch\ntaskGroups:\n{}",
        mixed.concat()
    )));
    assert_eq!(value_of(&first_pod(&job), "WORLD_SIZE"), None);
    assert_eq!(
        value_of(&first_pod(&job), "PET_NPROC_PER_NODE").as_deref(),
        Some("1")
    );
}

#[test]
fn without_a_framework_only_our_own() {
    let job = one_group("None", "env: [{name: MASTER_ADDR, value: mine}]");
    let names: Vec<_> = env(&first_pod(&job)).into_iter().map(|(n, _)| n).collect();
    assert_eq!(
        names,
        [
            "TRELLIS_JOB",
            "TRELLIS_GROUP",
            "TRELLIS_INDEX",
            "TRELLIS_RANK",
            "TRELLIS_WORLD_SIZE",
            "TRELLIS_ATTEMPT",
            "MASTER_ADDR"
        ]
    );
}

#[test]
fn the_attempt_is_told_and_the_domain_is_configuration() {
    let job = resolved(job(&format!(
        "framework: PyTorch\ntaskGroups:\n{}",
        group("worker", "")
    )));
    let surroundings = Surroundings::resolve(job.job(), found(&Default::default())).unwrap();
    let settings = Arc::new(Settings {
        cluster_domain: "example.internal".to_owned(),
        dns: vec![DnsPeer::cidr("169.254.20.10/32")],
    });
    let compiled = compile(job, surroundings, &settings);
    let pod = compiled.groups()[0].pod(
        0,
        &PodPlacement {
            attempt: 7,
            ..PLACEMENT
        },
    );
    assert_eq!(value_of(&pod, "TRELLIS_ATTEMPT").unwrap(), "7");
    assert_eq!(
        value_of(&pod, "MASTER_ADDR").unwrap(),
        "llm-worker-0.llm.team-a.svc.example.internal"
    );
    assert_eq!(pod.metadata.labels.unwrap()["trellis.dev/attempt"], "7");
}
