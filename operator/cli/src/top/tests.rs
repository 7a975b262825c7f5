//! Tests from the output of exporters to the output for people.

use std::collections::BTreeSet;

use http::{Request, Response};
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use trellis_api::TrainingJob;
use trellis_reads::ApiFailure;

use super::dcgm::parse_scrape;
use super::exporters::MissingExporter;
use super::gpu_jobs::from_all_namespaces;
use super::scrape::{are_simulated, scrape};
use super::usage::measure_usage;
use super::{TopReport, view};

fn job(name: &str, queue: &str) -> TrainingJob {
    serde_json::from_value(json!({
        "apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingJob",
        "metadata": {"name": name, "namespace": "ml"},
        "spec": {"taskGroups": [{"name": "worker", "gpus": 2, "image": "i",
            "resources": {"limits": {"cpu": 1, "memory": "1Gi"}}}]},
        "status": {"queue": queue},
    }))
    .unwrap()
}

fn pod(job: &str, index: u32, node: &str, phase: &str) -> Pod {
    serde_json::from_value(json!({
        "metadata": {"name": format!("{job}-worker-{index}"), "namespace": "ml", "labels": {
            "trellis.dev/job": job, "trellis.dev/group": "worker", "trellis.dev/index": index.to_string(),
            "trellis.dev/attempt": "1"}},
        "spec": {"nodeName": node, "containers": [
            {"name": "main", "env": [{"name": "TRELLIS_RANK", "value": index.to_string()}]}]},
        "status": {"phase": phase},
    }))
    .unwrap()
}

fn exporter(name: &str, node: &str) -> Pod {
    serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": "gpu-operator", "uid": name},
        "spec": {"nodeName": node, "containers": [{"name": "exporter", "ports": [
            {"containerPort": 8080}, {"name": "metrics", "containerPort": 9401}]}]},
        "status": {"phase": "Running"},
    }))
    .unwrap()
}

/// The output of an exporter on a node with two GPUs that this pod holds.
fn exporter_text(pod: &str, busy: [&str; 2], used: [u32; 2]) -> String {
    let mut text =
        "# HELP DCGM_FI_DEV_GPU_UTIL GPU utilization (in %).\n# TYPE DCGM_FI_DEV_GPU_UTIL gauge\n"
            .to_owned();
    for (n, (busy, used)) in busy.iter().zip(used).enumerate() {
        let labels = format!(
            "gpu=\"{n}\",UUID=\"GPU-{pod}-{n}\",device=\"nvidia{n}\",modelName=\"NVIDIA H100 80GB HBM3\",container=\"main\",namespace=\"ml\",pod=\"{pod}\""
        );
        let free = 81_000_u32.saturating_sub(used);
        text.push_str(&format!("DCGM_FI_DEV_GPU_UTIL{{{labels}}} {busy}\n"));
        text.push_str(&format!("DCGM_FI_DEV_FB_USED{{{labels}}} {used}\n"));
        text.push_str(&format!("DCGM_FI_DEV_FB_FREE{{{labels}}} {free}\n"));
    }
    text
}

#[test]
fn gpu_belongs_to_the_pod_that_uses_it() {
    let text = exporter_text("llm-worker-0", ["97", "3"], [70_000, 1_000]);
    let read = parse_scrape(&text);
    let measured: Vec<_> = read
        .gpus
        .iter()
        .map(|gpu| (gpu.pod.as_str(), gpu.id.as_str(), gpu.utilization))
        .collect();
    assert_eq!(
        measured,
        [
            ("llm-worker-0", "GPU-llm-worker-0-0", Some(97.0)),
            ("llm-worker-0", "GPU-llm-worker-0-1", Some(3.0))
        ]
    );
    let memory = read.gpus[0].memory_percent().unwrap();
    assert!((86.0..87.0).contains(&memory), "{memory}");
}

#[test]
fn mig_instances_are_measured_by_engine_activity() {
    let text = "DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu=\"0\",UUID=\"G\",GPU_I_ID=\"7\",exported_namespace=\"ml\",exported_pod=\"a\",namespace=\"gpu-operator\",pod=\"exporter\"} 0.25\n\
        DCGM_FI_PROF_GR_ENGINE_ACTIVE{gpu=\"0\",UUID=\"G\",GPU_I_ID=\"8\",exported_namespace=\"ml\",exported_pod=\"b\"} 0.5\n";
    let gpus = parse_scrape(text).gpus;
    let measured: Vec<_> = gpus
        .iter()
        .map(|gpu| (gpu.pod.as_str(), gpu.id.as_str(), gpu.utilization))
        .collect();
    assert_eq!(
        measured,
        [("a", "G/7", Some(25.0)), ("b", "G/8", Some(50.0))]
    );
}

#[test]
fn blank_dcgm_values_are_left_out() {
    let text = exporter_text("llm-worker-0", ["9223372036854775794", "NaN"], [1, 1]);
    let gpus = parse_scrape(&text).gpus;
    assert_eq!(gpus.len(), 2);
    assert!(gpus.iter().all(|gpu| gpu.utilization.is_none()));
}

#[test]
fn exporter_without_pod_labels_differs_from_idle_gpus() {
    assert!(parse_scrape("DCGM_FI_DEV_GPU_UTIL{gpu=\"0\",UUID=\"G\"} 5\n").names_no_pods);
    assert!(
        !parse_scrape("DCGM_FI_DEV_GPU_UTIL{gpu=\"0\",UUID=\"G\",namespace=\"\",pod=\"\"} 5\n")
            .names_no_pods
    );
    assert!(!parse_scrape("").names_no_pods);
}

fn top() -> TopReport {
    let jobs = [
        job("llm", "research"),
        job("bert", "research"),
        job("notebook", "default"),
        job("done", "default"),
    ];
    let pods = [
        pod("llm", 0, "gpu-0", "Running"),
        pod("llm", 1, "gpu-1", "Running"),
        pod("llm", 2, "gpu-2", "Running"),
        pod("bert", 0, "gpu-3", "Running"),
        pod("notebook", 0, "gpu-4", "Running"),
        pod("done", 0, "gpu-5", "Succeeded"),
    ];
    let texts = [
        exporter_text("llm-worker-0", ["97", "99"], [70_000, 70_000]),
        exporter_text("llm-worker-1", ["98", "0"], [70_000, 60_000]),
        exporter_text("bert-worker-0", ["88", "90"], [40_000, 40_000]),
        exporter_text("notebook-worker-0", ["0", "1"], [500, 500]),
        // A pod of no job.
        exporter_text("elsewhere", ["100", "100"], [1, 1]),
    ];
    let gpus: Vec<_> = texts
        .iter()
        .flat_map(|text| parse_scrape(text).gpus)
        .collect();
    TopReport {
        jobs: measure_usage(&jobs, &pods, &gpus),
        exporters: 5,
        notes: vec!["1 of 5 DCGM exporters could not be read; the first: dcgm-2: no".to_owned()],
    }
}

fn plain(text: &str) -> String {
    anstream::adapter::strip_str(text).to_string()
}

#[test]
fn jobs_are_sorted_by_waste() {
    insta::assert_snapshot!(plain(&view::render_jobs(&top(), false, Some(140))));
}

#[test]
fn wide_job_table_has_all_columns() {
    insta::assert_snapshot!(plain(&view::render_jobs(&top(), true, None)));
}

#[test]
fn gpu_table_lists_each_gpu_of_the_job() {
    let mut top = top();
    top.jobs.retain(|job| job.name == "llm");
    insta::assert_snapshot!(plain(&view::render_gpus(&top, true, None)));
}

#[test]
fn empty_report_is_explained() {
    let none = TopReport::default();
    assert_eq!(
        view::render_jobs(&none, false, None),
        "No job holds GPUs.\n"
    );
    assert_eq!(
        view::render_gpus(&none, false, None),
        "The job holds no GPUs now.\n"
    );
}

fn client(answer: fn(&str) -> (u16, Value)) -> Client {
    let answer = move |request: Request<Body>| {
        let (code, body) = answer(request.uri().path());
        let body = match body {
            Value::String(text) => text.into_bytes(),
            other => serde_json::to_vec(&other).unwrap(),
        };
        async move {
            let answer = Response::builder().status(code).body(Body::from(body));
            Ok::<_, std::io::Error>(answer.unwrap())
        }
    };
    Client::new(tower::service_fn(answer), "ml")
}

fn refusal(code: u16) -> (u16, Value) {
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "pods \"b\" is forbidden", "reason": "Forbidden", "code": code});
    (code, status)
}

#[tokio::test]
async fn only_exporters_on_nodes_of_the_jobs_are_scraped() {
    let server = client(|path| match path {
        "/api/v1/namespaces/gpu-operator/pods/a:9401/proxy/metrics" => (
            200,
            json!(exporter_text("llm-worker-0", ["97", "99"], [1, 1])),
        ),
        _ => refusal(403),
    });
    let exporters = [
        exporter("a", "gpu-0"),
        exporter("b", "gpu-1"),
        exporter("c", "cpu-0"),
    ];
    let nodes: BTreeSet<_> = ["gpu-0".to_owned(), "gpu-1".to_owned()].into();
    let answers = scrape(&server, &exporters, &nodes).await;
    assert_eq!((answers.exporters, answers.gpus.len()), (2, 2));
    assert_eq!(answers.failure_reason(), None);
    assert_eq!(
        answers.notes(false),
        ["1 of 2 DCGM exporters could not be read; the first: b: pods \"b\" is forbidden"]
    );
    let results = scrape(&server, &exporters[2..], &nodes).await;
    assert_eq!((results.exporters, results.failure_reason()), (0, None));
    let notes = results.notes(false);
    assert!(notes[0].contains("on a node of these jobs"), "{notes:?}");
    assert!(notes[0].contains("DaemonSet"), "{notes:?}");
    let notes = results.notes(true);
    assert!(notes[0].ends_with("have no utilization"), "{notes:?}");
    let other = client(|_| (403, json!("denied by a proxy on the way")));
    let other = scrape(&other, &exporters[1..2], &nodes).await;
    let reason = other.failure_reason().unwrap();
    assert!(!reason.contains("pods/proxy"), "{reason}");
    let none = scrape(&server, &exporters[1..2], &nodes).await;
    let reason = none.failure_reason().unwrap();
    assert!(reason.contains("the right to get pods/proxy"), "{reason}");
}

#[tokio::test]
async fn nodes_count_as_simulated_only_if_all_are() {
    let server = client(|path| match path {
        "/api/v1/nodes/gpu-0" | "/api/v1/nodes/gpu-1" => (
            200,
            json!({"metadata": {"name": "a", "annotations": {"kwok.x-k8s.io/node": "fake"}}}),
        ),
        "/api/v1/nodes/real" => (200, json!({"metadata": {"name": "real"}})),
        _ => refusal(403),
    });
    let are_simulated = async |nodes: &[&str]| {
        let nodes: BTreeSet<_> = nodes.iter().map(|node| (*node).to_owned()).collect();
        are_simulated(&server, &nodes).await
    };
    assert!(are_simulated(&["gpu-0", "gpu-1"]).await);
    assert!(!are_simulated(&["gpu-0", "real"]).await);
    assert!(!are_simulated(&["forbidden"]).await);
    assert!(!are_simulated(&[]).await);
}

#[test]
fn missing_exporter_is_explained_by_simulated_nodes_or_labels() {
    let none = MissingExporter::new("any namespace", &["app=dcgm", "app=other"]);
    assert_eq!(
        none.explain(true),
        "no DCGM exporter in any namespace: the nodes of these jobs are simulated, and simulated GPUs have no utilization"
    );
    let reason = none.explain(false);
    assert!(
        reason.starts_with("no DCGM exporter in any namespace (app=dcgm or app=other): install")
    );
}

#[tokio::test]
async fn duplicate_gpu_counts_once_and_stopped_exporters_are_skipped() {
    let server = client(|path| match path.contains("pods/pending") {
        true => refusal(500),
        false => (
            200,
            json!(exporter_text("llm-worker-0", ["97", "99"], [1, 1])),
        ),
    });
    let mut pending = exporter("pending", "gpu-0");
    pending.status.as_mut().unwrap().phase = Some("Pending".to_owned());
    let two = [exporter("chart", "gpu-0"), exporter("operator", "gpu-0")];
    let all = [&two[..], &[pending]].concat();
    let nodes: BTreeSet<_> = ["gpu-0".to_owned()].into();
    let answers = scrape(&server, &all, &nodes).await;
    assert_eq!((answers.exporters, answers.gpus.len()), (2, 2));
    assert!(
        answers.notes(false).is_empty(),
        "{:?}",
        answers.notes(false)
    );
}

#[test]
fn only_a_missing_right_narrows_all_namespaces_to_one() {
    let error = |code: u16| {
        let status = kube::core::Status::failure("why", "").with_code(code);
        ApiFailure::new::<Pod>("list", kube::Error::Api(Box::new(status)))
    };
    let is_everywhere = |jobs, pods| {
        from_all_namespaces(jobs, pods)
            .map(|all| all.is_some())
            .ok()
    };
    assert_eq!(is_everywhere(Ok(None), Ok(None)), Some(true));
    assert_eq!(is_everywhere(Err(error(403)), Ok(None)), Some(false));
    assert_eq!(is_everywhere(Err(error(403)), Err(error(403))), Some(false));
    assert_eq!(is_everywhere(Err(error(503)), Err(error(403))), None);
    assert_eq!(is_everywhere(Ok(None), Err(error(500))), None);
}

#[test]
fn exporter_text_cannot_control_the_terminal() {
    let mut gpu = super::dcgm::Gpu {
        id: "GPU\u{1b}[2J-1\n".to_owned(),
        number: Some("\u{202e}0".to_owned()),
        ..super::dcgm::Gpu::default()
    };
    gpu.pod = "llm-worker-0".to_owned();
    let job_gpu = super::usage::JobGpu {
        rank: None,
        node: None,
        gpu,
    };
    let mut top = top();
    top.jobs[0].each = vec![job_gpu];
    top.notes = vec!["a\u{1b}]0;x\u{7}b\u{202e}".to_owned()];
    let text = view::render_gpus(&top, true, None);
    assert!(text.contains("GPU-1") && text.contains("ab"), "{text:?}");
    for steers in ["\u{1b}[2J", "\u{1b}]", "\u{202e}", "\u{7}"] {
        assert!(!text.contains(steers), "{text:?}");
    }
}

#[test]
fn wide_table_is_not_truncated() {
    let table = |wide, less: usize| {
        let whole = plain(&view::render_jobs(&top(), wide, None));
        let longest = whole.lines().map(str::len).max().unwrap();
        let width = longest.checked_sub(less);
        plain(&view::render_jobs(&top(), wide, width))
    };
    assert!(!table(false, 0).contains('…'));
    assert!(table(false, 8).contains('…'), "{}", table(false, 8));
    assert!(!table(true, 8).contains('…'), "{}", table(true, 8));
}
