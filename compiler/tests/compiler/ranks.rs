//! Ranks and addresses of pods, for every framework and any groups.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use serde_json::json;
use trellis_api::job::Framework;
use trellis_api::rules::is_reserved_env;
use trellis_api::{TrainingJob, ValidatedJob};
use trellis_compiler::{CompiledJob, PodPlacement};

use super::support::{PLACEMENT, UID, compile_job, env, env_value};

#[derive(Clone, Debug)]
struct RankedGroup {
    role: &'static str,
    replicas: u32,
    gpus: u32,
}

fn job(framework: Framework, groups: &[RankedGroup]) -> TrainingJob {
    let groups = groups.iter().enumerate().map(|(at, group)| {
        json!({"name": format!("g{at}"), "role": group.role, "replicas": group.replicas,
            "gpus": group.gpus, "image": "i", "resources": {"limits": {"cpu": 1, "memory": "1Gi"}}})
    });
    let groups: Vec<_> = groups.collect();
    serde_json::from_value(
        json!({"apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingJob",
        "metadata": {"name": "j", "namespace": "ns", "uid": UID, "generation": 1},
        "spec": {"framework": framework, "taskGroups": groups}}),
    )
    .unwrap()
}

fn groups() -> impl Strategy<Value = Vec<RankedGroup>> {
    let role = prop::sample::select(vec![
        "Worker",
        "Worker",
        "Coordinator",
        "Launcher",
        "Server",
        "Evaluator",
    ]);
    let group = (role, 1..4_u32, 0..3_u32).prop_map(|(role, replicas, gpus)| RankedGroup {
        role,
        // These roles allow one pod only, so that more of the generated jobs are valid.
        replicas: match role {
            "Launcher" | "Coordinator" => 1,
            _ => replicas,
        },
        gpus,
    });
    prop::collection::vec(group, 1..6)
}

/// Rank and world size by pod; everything that must hold of one pod is checked.
fn ranks(job: &CompiledJob, framework: Framework) -> BTreeMap<String, (u32, u32)> {
    let mut ranks = BTreeMap::new();
    for group in job.groups() {
        for index in 0..group.replicas() {
            let pod = group.pod(index, &PLACEMENT);
            let name = format!("j-{}-{index}", group.name());
            assert_eq!(pod.metadata.name.as_ref(), Some(&name));
            assert_eq!(pod.spec.as_ref().unwrap().hostname.as_ref(), Some(&name));
            let number = |of: &str| -> u32 { env_value(&pod, of).unwrap().parse().unwrap() };
            let rank = number("TRELLIS_RANK");
            let later = PodPlacement {
                attempt: 9,
                plan: "fedcba9876543210",
                node: "node-z",
                ..PLACEMENT
            };
            let again = group.pod(index, &later);
            assert_eq!(env_value(&again, "TRELLIS_RANK"), Some(rank.to_string()));
            assert_eq!(again.spec.unwrap().hostname.as_ref(), Some(&name));

            let names: Vec<_> = env(&pod).into_iter().map(|(n, _)| n).collect();
            let unique: BTreeSet<_> = names.iter().collect();
            assert_eq!(unique.len(), names.len(), "{names:?}");
            let reserved = |n: &String| is_reserved_env(n, framework);
            assert!(names.iter().all(reserved), "{names:?}");
            ranks.insert(name, (rank, number("TRELLIS_WORLD_SIZE")));
        }
    }
    ranks
}

proptest! {
    #[test]
    fn ranks_are_unique_and_stable(groups in groups()) {
        let mut valid = Vec::new();
        for framework in Framework::ALL {
            let written = job(framework, &groups);
            if ValidatedJob::try_from(written.clone()).is_err() {
                continue;
            }
            valid.push(framework);
            let compiled = compile_job(written.clone());
            let ranks = ranks(&compiled, framework);
            prop_assert_eq!(&ranks, &self::ranks(&super::support::compile_job(written), framework));

            let evaluators = |(at, group): (usize, &RankedGroup)| {
                (group.role == "Evaluator").then(|| format!("j-g{at}-"))
            };
            let evaluators: Vec<_> = groups.iter().enumerate().filter_map(evaluators).collect();
            let is_evaluator = |pod: &str| evaluators.iter().any(|start| pod.starts_with(start));
            let (outside, world): (Vec<_>, Vec<_>) =
                ranks.iter().partition(|(pod, _)| is_evaluator(pod));
            let size = u32::try_from(world.len()).unwrap();
            prop_assert!(ranks.values().all(|(_, of)| *of == size));
            let given: BTreeSet<u32> = world.iter().map(|(_, (rank, _))| *rank).collect();
            prop_assert_eq!(given, (0..size).collect::<BTreeSet<u32>>());
            let others: BTreeSet<u32> = outside.iter().map(|(_, (rank, _))| *rank).collect();
            prop_assert_eq!(others.len(), outside.len());
            prop_assert!(others.iter().all(|rank| *rank >= size));

            // Rank 0 leads, and is of a group that trains or launches.
            let leader = ranks.iter().find(|(_, (rank, _))| *rank == 0).unwrap().0;
            let group = compiled.job().spec().leader_group().unwrap();
            prop_assert_eq!(leader, &format!("j-{group}-0"));
        }
        // Some of the generated jobs must be valid.
        let plain = groups.iter().all(|g| g.role == "Worker");
        prop_assert!(!plain || valid.len() >= 5);
    }
}
