//! Variables, ports and files of each framework except PyTorch.

use k8s_openapi::api::core::v1::Pod;
use trellis_compiler::{CompiledJob, Demand};

use super::support::{PLACEMENT, compile_job, container, env, env_value, job, spec};

/// A job of this framework with groups of one line.
fn compiled_framework_job(framework: &str, groups: &[(&str, &str)]) -> CompiledJob {
    let groups = groups.iter().map(|(name, rest)| {
        format!("- {{name: {name}, image: busybox, resources: {{limits: {{cpu: 1, memory: 1Gi}}}}, {rest}}}\n")
    });
    let groups: String = groups.collect();
    compile_job(job(&format!(
        "framework: {framework}\ntaskGroups:\n{groups}"
    )))
}

fn pod(job: &CompiledJob, group: &str, index: u32) -> Pod {
    let group = job.groups().iter().find(|g| g.name() == group).unwrap();
    group.pod(index, &PLACEMENT)
}

/// The variables of a pod that are not Trellis' own of every pod.
fn framework_variables(pod: &Pod) -> Vec<(String, String)> {
    let mut env = env(pod);
    env.retain(|(name, _)| !name.starts_with("TRELLIS_") || name == "TRELLIS_HOSTFILE");
    env
}

fn pairs(list: &[(&str, &str)]) -> Vec<(String, String)> {
    let owned = |(a, b): &(&str, &str)| ((*a).to_owned(), (*b).to_owned());
    list.iter().map(owned).collect()
}

const ADDRESS: &str = "llm-worker-0.llm.team-a.svc.cluster.local";

/// torchrun assigns the ranks, because the members are not known in advance.
#[test]
fn elastic_pytorch_pods_rendezvous_at_rank_0() {
    let job = compiled_framework_job(
        "PyTorch",
        &[
            ("board", "membership: BestEffort, replicas: 2"),
            ("worker", "replicas: 4, minReplicas: 2, gpus: 8"),
        ],
    );
    let expected = pairs(&[
        ("PET_MAX_RESTARTS", "3"),
        ("PET_NNODES", "2:4"),
        ("PET_RDZV_BACKEND", "c10d"),
        ("PET_RDZV_ENDPOINT", &format!("{ADDRESS}:29500")),
        ("PET_RDZV_ID", "llm"),
        ("PET_NPROC_PER_NODE", "8"),
        ("MASTER_ADDR", ADDRESS),
        ("MASTER_PORT", "29500"),
    ]);
    assert_eq!(framework_variables(&pod(&job, "worker", 3)), expected);
    // Outside the gang is outside the world, with the last ranks.
    let board = pod(&job, "board", 1);
    assert_eq!(framework_variables(&board), []);
    assert_eq!(env_value(&board, "TRELLIS_RANK").as_deref(), Some("5"));
    assert_eq!(
        env_value(&board, "TRELLIS_WORLD_SIZE").as_deref(),
        Some("4")
    );
    let group = job.pod_group();
    assert_eq!(group.spec.min_member, 2);
    let members: Vec<_> = group
        .spec
        .groups
        .iter()
        .map(|g| (&*g.name, g.count))
        .collect();
    assert_eq!(members, [("worker", 2)]);
}

#[test]
fn jax_pod_runs_one_process() {
    let job = compiled_framework_job("JAX", &[("worker", "replicas: 3, gpus: 8")]);
    let expected = pairs(&[
        ("JAX_COORDINATOR_ADDRESS", &format!("{ADDRESS}:6666")),
        ("JAX_NUM_PROCESSES", "3"),
        ("JAX_PROCESS_ID", "2"),
    ]);
    assert_eq!(framework_variables(&pod(&job, "worker", 2)), expected);
    assert!(job.config_maps().is_empty() && job.key_secret([1; 66]).is_none());
}

#[test]
fn tensorflow_pod_has_its_cluster_and_task() {
    let job = compiled_framework_job(
        "TensorFlow",
        &[
            ("ps", "role: Server, replicas: 2"),
            ("small", "replicas: 1"),
            ("watch", "role: Evaluator"),
            ("chief", "role: Coordinator"),
            ("large", "replicas: 2, gpus: 8"),
        ],
    );
    let host = |pod: &str| format!("\"llm-{pod}.llm.team-a.svc.cluster.local:2222\"");
    let cluster = format!(
        "{{\"chief\":[{}],\"worker\":[{},{},{}],\"ps\":[{},{}]}}",
        host("chief-0"),
        host("small-0"),
        host("large-0"),
        host("large-1"),
        host("ps-0"),
        host("ps-1")
    );
    for (group, index, kind, task) in [
        ("chief", 0, "chief", 0),
        ("small", 0, "worker", 0),
        ("large", 1, "worker", 2),
        ("ps", 1, "ps", 1),
        ("watch", 0, "evaluator", 0),
    ] {
        let config =
            format!("{{\"cluster\":{cluster},\"task\":{{\"type\":\"{kind}\",\"index\":{task}}}}}");
        let pod = pod(&job, group, index);
        assert_eq!(framework_variables(&pod), pairs(&[("TF_CONFIG", &config)]));
    }
    // The chief leads, servers follow all workers, and the evaluator is outside.
    let ranks: Vec<_> = job.groups().iter().map(|g| g.first_rank()).collect();
    assert_eq!(ranks, [4, 1, 6, 0, 2]);
    let world = env_value(&pod(&job, "watch", 0), "TRELLIS_WORLD_SIZE");
    assert_eq!(world.unwrap(), "6");
}

#[test]
fn deepspeed_pod_has_the_pytorch_variables_and_a_hostfile() {
    let groups = [
        ("worker", "replicas: 2, gpus: 4"),
        ("eval", "role: Evaluator"),
        ("chief", "role: Coordinator"),
    ];
    let job = compiled_framework_job("DeepSpeed", &groups);
    let torch = compiled_framework_job("PyTorch", &groups);
    let (ours, theirs) = (pod(&job, "worker", 1), pod(&torch, "worker", 1));
    let mut expected = pairs(&[("TRELLIS_HOSTFILE", "/etc/trellis/hosts/hostfile")]);
    expected.extend(framework_variables(&theirs));
    assert_eq!(framework_variables(&ours), expected);
    assert!(framework_variables(&pod(&job, "eval", 0)).is_empty());
    let maps = job.config_maps();
    assert_eq!(maps.len(), 1);
    assert_eq!(maps[0].metadata.name.as_deref(), Some("llm-hosts"));
    assert_eq!(
        maps[0].data.as_ref().unwrap()["hostfile"],
        "llm-chief-0.llm.team-a.svc.cluster.local slots=1\n\
         llm-worker-0.llm.team-a.svc.cluster.local slots=4\n\
         llm-worker-1.llm.team-a.svc.cluster.local slots=4\n"
    );
    let volume = &spec(&ours).volumes.as_ref().unwrap()[0];
    assert_eq!(volume.config_map.as_ref().unwrap().name, "llm-hosts");
    // The job's own ConfigMap needs no permit.
    assert!(
        !job.demands()
            .contains(&Demand::UseConfigMap("llm-hosts".to_owned()))
    );
}

#[test]
fn config_map_named_like_the_hostfile_is_a_demand_without_hostfile() {
    let job = compiled_framework_job(
        "PyTorch",
        &[(
            "worker",
            "mounts: [{configMapName: llm-hosts, path: /hosts}]",
        )],
    );
    let demand = Demand::UseConfigMap("llm-hosts".to_owned());
    assert!(job.demands().contains(&demand));
}

#[test]
fn evaluator_gets_framework_variables_only_from_tensorflow() {
    for framework in ["PyTorch", "DeepSpeed", "JAX"] {
        let job = compiled_framework_job(
            framework,
            &[("worker", "gpus: 1"), ("eval", "role: Evaluator, gpus: 8")],
        );
        let pod = pod(&job, "eval", 0);
        assert!(framework_variables(&pod).is_empty(), "{framework}");
        assert!(container(&pod).ports.is_none());
        // One process in each pod of the world, whatever the evaluator's GPUs.
        assert_eq!(env_value(&pod, "TRELLIS_RANK").unwrap(), "1");
        assert_eq!(env_value(&pod, "TRELLIS_WORLD_SIZE").unwrap(), "1");
    }
    let job = compiled_framework_job(
        "PyTorch",
        &[("worker", "gpus: 1"), ("eval", "role: Evaluator, gpus: 8")],
    );
    assert_eq!(
        env_value(&pod(&job, "worker", 0), "WORLD_SIZE").unwrap(),
        "1"
    );
}
