//! The pods that docs/pods.md and docs/frameworks describe match compiled pods.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Pod;

use super::support::{PLACEMENT, compile_job, compile_one_group, container, env, load, spec};

const PODS: &str = include_str!("../../../docs/pods.md");
const PAGES: [(&str, &str); 7] = [
    (
        "PyTorch",
        include_str!("../../../docs/frameworks/pytorch.md"),
    ),
    (
        "DeepSpeed",
        include_str!("../../../docs/frameworks/deepspeed.md"),
    ),
    ("JAX", include_str!("../../../docs/frameworks/jax.md")),
    ("MPI", include_str!("../../../docs/frameworks/mpi.md")),
    (
        "TensorFlow",
        include_str!("../../../docs/frameworks/tensorflow.md"),
    ),
    ("Ray", include_str!("../../../docs/frameworks/ray.md")),
    ("None", include_str!("../../../docs/frameworks/none.md")),
];

/// The cells of the rows of all tables below a heading, without back-quotes.
fn table_rows(heading: &str) -> Vec<Vec<String>> {
    let section = PODS.split(&format!("\n## {heading}\n")).nth(1).unwrap();
    let section = section.split("\n## ").next().unwrap();
    let lines = section.lines();
    lines
        .filter(|line| line.starts_with("| ") && line.contains('`') && !line.contains("| value |"))
        .map(|line| {
            let cells = line.trim_matches('|').split('|');
            cells
                .map(|c| c.trim().trim_matches('`').to_owned())
                .collect()
        })
        .collect()
}

#[test]
fn documented_variables_match_a_compiled_pod() {
    let told: Vec<(String, String)> = table_rows("Variables")
        .into_iter()
        .map(|row| (row[0].clone(), row[2].clone()))
        .collect();
    let pod = compile_one_group("None", "replicas: 2, gpus: 1").groups()[0].pod(1, &PLACEMENT);
    assert_eq!(env(&pod), told);
}

#[test]
fn documented_names_match_a_compiled_pod() {
    let job = compile_one_group("PyTorch", "replicas: 2, gpus: 1");
    let pod = job.groups()[0].pod(1, &PLACEMENT);
    assert_eq!(pod.metadata.name.as_deref(), Some("llm-worker-1"));
    assert_eq!(spec(&pod).hostname.as_deref(), Some("llm-worker-1"));
    assert_eq!(spec(&pod).subdomain.as_deref(), Some("llm"));
    let service = job.services()[0].spec.clone().unwrap();
    assert_eq!(service.cluster_ip.as_deref(), Some("None"));
    assert_eq!(service.publish_not_ready_addresses, Some(true));
}

/// All pods of the first whole job of a text.
fn pods(text: &str) -> Vec<Pod> {
    let mut blocks = text.split("```yaml\n").skip(1);
    let example = blocks.next().unwrap().split("```").next().unwrap();
    let job = compile_job(load(example));
    let groups = job.groups().iter();
    groups
        .flat_map(|group| (0..group.replicas()).map(|index| group.pod(index, &PLACEMENT)))
        .collect()
}

/// The variables that a page has tables of: whole words of capitals at the start of a row.
fn documented_variables(text: &str) -> BTreeSet<String> {
    let rows = text.lines().filter(|line| line.starts_with("| `"));
    let cells = rows.filter_map(|line| line.split('|').nth(1));
    let words = cells.flat_map(|cell| cell.split(','));
    words
        .map(|word| word.trim().trim_matches('`').to_owned())
        .filter(|word| word.starts_with(|c: char| c.is_ascii_uppercase()))
        .collect()
}

#[test]
fn framework_example_pods_have_the_documented_variables() {
    for (framework, page) in PAGES {
        let mut given = BTreeSet::new();
        let mut ports = BTreeSet::new();
        for pod in pods(page) {
            given.extend(env(&pod).into_iter().map(|(name, _)| name));
            let open = container(&pod).ports.iter().flatten();
            ports.extend(open.map(|p| (p.container_port, p.name.clone().unwrap())));
        }
        given.retain(|name| !name.starts_with("TRELLIS_") || name == "TRELLIS_HOSTFILE");
        let mut told = documented_variables(page);
        match framework {
            // DeepSpeed's page refers to PyTorch's.
            "DeepSpeed" => told.extend(self::documented_variables(PAGES[0].1)),
            // The page describes it in a sentence.
            "TensorFlow" => {
                assert!(page.contains("`TF_CONFIG`: the cluster"));
                told.insert("TF_CONFIG".to_owned());
            }
            _ => {}
        }
        if ["PyTorch", "DeepSpeed"].contains(&framework) {
            // The page's example has 8 GPUs a pod.
            told.remove("RANK");
            told.remove("WORLD_SIZE");
        }
        assert_eq!(given, told, "{framework}");

        let table = table_rows("Ports").into_iter();
        let of = table.filter(|row| row[0].split(", ").any(|name| name == framework));
        let told: BTreeSet<_> = of.map(|r| (r[1].parse().unwrap(), r[2].clone())).collect();
        assert_eq!(ports, told, "{framework}");
        for (number, name) in &ports {
            let sentence = format!("Port {number}, `{name}`.");
            assert!(
                page.contains(&sentence) || framework == "DeepSpeed",
                "{sentence}"
            );
        }
    }
}
