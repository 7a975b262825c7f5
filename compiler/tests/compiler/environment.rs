//! Ranks and torchrun's variables.

use std::sync::Arc;

use trellis_compiler::{CompileContext, DnsPeer, PodPlacement, Settings, compile};

use super::support::{
    PLACEMENT, compile_facts, compile_job, compile_one_group, env, env_value, first_pod, job,
    resolve_job,
};

/// A task group on one line, with the fields in `rest`.
fn group(name: &str, rest: &str) -> String {
    format!(
        "- {{name: {name}, image: busybox, resources: {{limits: {{cpu: 1, memory: 1Gi}}}}, {rest}}}\n"
    )
}

#[test]
fn coordinator_has_rank_0_at_any_position_in_the_spec() {
    let groups = [
        group("data", "replicas: 2"),
        group("worker", "replicas: 3"),
        group("chief", "replicas: 2, role: Coordinator"),
    ];
    let job = compile_job(job(&format!(
        "framework: PyTorch\ntaskGroups:\n{}",
        groups.concat()
    )));
    let mut ranks = Vec::new();
    for group in job.groups() {
        for index in 0..group.replicas() {
            let pod = group.pod(index, &PLACEMENT);
            let rank = env_value(&pod, "TRELLIS_RANK").unwrap();
            assert_eq!(env_value(&pod, "PET_NODE_RANK").as_ref(), Some(&rank));
            assert_eq!(env_value(&pod, "RANK").as_ref(), Some(&rank));
            assert_eq!(
                env_value(&pod, "PET_MASTER_ADDR").unwrap(),
                "llm-chief-0.llm.team-a.svc.cluster.local"
            );
            assert_eq!(env_value(&pod, "TRELLIS_WORLD_SIZE").unwrap(), "7");
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
fn pytorch_pod_with_several_gpus_runs_a_process_per_gpu() {
    let job = compile_one_group(
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
fn pod_has_rank_and_world_size_only_with_one_process_per_pod() {
    for (gpus, processes, expected) in [(0, "1", Some("2")), (1, "1", Some("2")), (2, "2", None)] {
        let job = compile_one_group("PyTorch", &format!("replicas: 2, gpus: {gpus}"));
        let pod = job.groups()[0].pod(1, &PLACEMENT);
        assert_eq!(env_value(&pod, "WORLD_SIZE").as_deref(), expected, "{gpus}");
        assert_eq!(env_value(&pod, "RANK").is_some(), expected.is_some());
        assert_eq!(
            env_value(&pod, "PET_NPROC_PER_NODE").as_deref(),
            Some(processes)
        );
    }
    let mixed = [group("chief", "gpus: 1"), group("worker", "gpus: 8")];
    let job = compile_job(job(&format!(
        "framework: PyTorch\ntaskGroups:\n{}",
        mixed.concat()
    )));
    assert_eq!(env_value(&first_pod(&job), "WORLD_SIZE"), None);
    assert_eq!(
        env_value(&first_pod(&job), "PET_NPROC_PER_NODE").as_deref(),
        Some("1")
    );
}

#[test]
fn pod_without_framework_has_only_trellis_variables() {
    let job = compile_one_group("None", "env: [{name: MASTER_ADDR, value: mine}]");
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
fn pod_has_its_attempt_and_the_configured_cluster_domain() {
    let job = resolve_job(job(&format!(
        "framework: PyTorch\ntaskGroups:\n{}",
        group("worker", "")
    )));
    let surroundings =
        CompileContext::resolve(job.job(), compile_facts(&Default::default())).unwrap();
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
    assert_eq!(env_value(&pod, "TRELLIS_ATTEMPT").unwrap(), "7");
    assert_eq!(
        env_value(&pod, "MASTER_ADDR").unwrap(),
        "llm-worker-0.llm.team-a.svc.example.internal"
    );
    assert_eq!(pod.metadata.labels.unwrap()["trellis.dev/attempt"], "7");
}

#[test]
fn ranks_of_several_groups_share_the_slices_of_the_job() {
    let groups = [
        group("worker", "replicas: 3"),
        group("chief", "role: Coordinator"),
        group("judge", "role: Evaluator"),
    ];
    let job = compile_job(job(&format!(
        "framework: PyTorch\ntopology: {{slices: [{{level: rack, pods: 2}}]}}\ntaskGroups:\n{}",
        groups.concat()
    )));
    let slices = job.groups().iter().flat_map(|group| {
        let pods = (0..group.replicas()).map(|index| group.pod(index, &PLACEMENT));
        pods.map(|pod| {
            let value = |name| env_value(&pod, name);
            let slice = value("TRELLIS_SLICE").zip(value("TRELLIS_SLICE_SIZE"));
            (pod.metadata.name.clone().unwrap(), slice)
        })
    });
    let of = |number: &str| Some((number.to_owned(), "2".to_owned()));
    let expected = [
        ("llm-worker-0", of("0")),
        ("llm-worker-1", of("1")),
        ("llm-worker-2", of("1")),
        ("llm-chief-0", of("0")),
        ("llm-judge-0", None),
    ];
    let expected = expected.map(|(name, slice)| (name.to_owned(), slice));
    assert_eq!(slices.collect::<Vec<_>>(), expected);
}

#[test]
fn pods_know_their_finest_slice() {
    let slices = "topology: {slices: [{level: block, pods: 4}, {level: rack, atMost: 3}]}";
    let job = compile_one_group("None", &format!("replicas: 8, {slices}"));
    let slice = |index: u32| {
        let pod = job.groups()[0].pod(index, &PLACEMENT);
        let value = |name: &str| env_value(&pod, name).unwrap();
        (value("TRELLIS_SLICE"), value("TRELLIS_SLICE_SIZE"))
    };
    // The largest divisor of 4 that is at most 3.
    for (index, expected) in [(0, "0"), (1, "0"), (2, "1"), (7, "3")] {
        assert_eq!(slice(index), (expected.to_owned(), "2".to_owned()));
    }
    let whole = compile_one_group("None", "replicas: 8");
    let pod = whole.groups()[0].pod(0, &PLACEMENT);
    assert_eq!(env_value(&pod, "TRELLIS_SLICE"), None);
}
