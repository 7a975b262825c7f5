//! docs/pods.md says what pods get: its tables are compared with a pod.

use super::support::{PLACEMENT, compiled, container, env, job, one_group, spec};

const TEXT: &str = include_str!("../../../docs/pods.md");

/// The cells of the rows of all tables below a heading, without back-quotes.
fn rows(heading: &str) -> Vec<Vec<String>> {
    let section = TEXT.split(&format!("\n## {heading}\n")).nth(1).unwrap();
    let section = section.split("\n## ").next().unwrap();
    section
        .lines()
        .filter(|line| {
            line.starts_with("| ") && !line.starts_with("| variable") && !line.starts_with("| port")
        })
        .map(|line| {
            let cells = line.trim_matches('|').split('|');
            cells
                .map(|c| c.trim().trim_matches('`').to_owned())
                .collect()
        })
        .collect()
}

#[test]
fn the_variables_are_those_of_a_pod() {
    let told: Vec<(String, String)> = rows("Variables")
        .into_iter()
        .map(|row| (row[0].clone(), row[2].clone()))
        .collect();
    let pytorch = one_group("PyTorch", "replicas: 2, gpus: 1").groups()[0].pod(1, &PLACEMENT);
    assert_eq!(env(&pytorch), told);
    let none = one_group("None", "replicas: 2, gpus: 1").groups()[0].pod(1, &PLACEMENT);
    let own: Vec<_> = told
        .into_iter()
        .filter(|(n, _)| n.starts_with("TRELLIS_"))
        .collect();
    assert_eq!(env(&none), own);
}

#[test]
fn names_and_ports_are_those_of_a_pod() {
    let job = one_group("PyTorch", "replicas: 2, gpus: 1");
    let pod = job.groups()[0].pod(1, &PLACEMENT);
    assert_eq!(pod.metadata.name.as_deref(), Some("llm-worker-1"));
    assert_eq!(spec(&pod).hostname.as_deref(), Some("llm-worker-1"));
    assert_eq!(spec(&pod).subdomain.as_deref(), Some("llm"));
    let service = job.service().spec.clone().unwrap();
    assert_eq!(service.cluster_ip.as_deref(), Some("None"));
    assert_eq!(service.publish_not_ready_addresses, Some(true));
    let ports: Vec<_> = container(&pod)
        .ports
        .iter()
        .flatten()
        .map(|p| (p.container_port.to_string(), p.name.clone().unwrap()))
        .collect();
    let told: Vec<_> = rows("Ports")
        .into_iter()
        .map(|r| (r[0].clone(), r[1].clone()))
        .collect();
    assert_eq!(ports, told);
}

/// The example is a whole job but for its image and resources.
#[test]
fn the_example_compiles() {
    let example = TEXT
        .split("```yaml\n")
        .nth(1)
        .unwrap()
        .split("```")
        .next()
        .unwrap();
    let whole = format!("{example}  image: train:1\n  resources: {{cpu: 1, memory: 1Gi}}\n");
    let job = compiled(job(&whole));
    assert_eq!(job.groups()[0].replicas(), 4);
}
