//! GPU utilization of jobs, from an exporter on this machine that the API server reaches through
//! its pod proxy.

use std::net::{IpAddr, UdpSocket};

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use trellis_api::job::JobPhase;
use trellis_e2e::wait::wait_for;

use crate::fixtures::shared_fixture;

/// Returns an address of this machine for the API server's proxy, which refuses loopback addresses.
fn host_address() -> IpAddr {
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    // This sends no packet. The kernel only selects the source address.
    let connected = socket.connect("203.0.113.1:9");
    connected.expect("a machine with an address and a route");
    socket.local_addr().unwrap().ip()
}

/// Answers every request with this text until the runtime ends.
async fn start_exporter(text: String) -> u16 {
    let listener = TcpListener::bind("0.0.0.0:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/plain; version=0.0.4\r\ncontent-length: {}\r\n\
         connection: close\r\n\r\n",
        text.len()
    );
    tokio::spawn(async move {
        while let Ok((mut asks, _)) = listener.accept().await {
            let mut request = [0; 4096];
            let _ = asks.read(&mut request).await;
            let _ = asks.write_all(format!("{head}{text}").as_bytes()).await;
        }
    });
    port
}

/// Returns the metrics of a node's exporter for a pod with two GPUs.
fn exporter_metrics(namespace: &str, pod: &str, busy: [u32; 2]) -> String {
    let gpus = busy.into_iter().enumerate().map(|(number, busy)| {
        let labels = format!(
            "gpu=\"{number}\",UUID=\"GPU-{pod}-{number}\",container=\"main\",namespace=\"{namespace}\",pod=\"{pod}\""
        );
        format!(
            "DCGM_FI_DEV_GPU_UTIL{{{labels}}} {busy}\nDCGM_FI_DEV_FB_USED{{{labels}}} 100\n\
             DCGM_FI_DEV_FB_FREE{{{labels}}} 900\n"
        )
    });
    gpus.collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn top_names_jobs_with_idle_gpus() {
    let scene = shared_fixture().await;
    let site = scene.create_site("cli-top", 1).await;
    for name in ["busy", "idle"] {
        site.submit(name, 1, 2).await;
        site.wait_for_phase(name, JobPhase::Running).await;
    }
    let at = ["-n", site.name()];
    let top = ["top", "--exporter-namespace", site.name()];
    let none = scene.run_trellis(&[&top[..], &at].concat()).await;
    assert_eq!(none.status, 2, "{none:?}");
    assert!(
        none.err.contains("no DCGM exporter in namespace"),
        "{none:?}"
    );
    assert!(
        none.err.contains("simulated GPUs have no utilization"),
        "{none:?}"
    );

    let text = exporter_metrics(site.name(), "busy-worker-0", [97, 83])
        + &exporter_metrics(site.name(), "idle-worker-0", [0, 60]);
    let port = start_exporter(text).await;
    let pods: Api<Pod> = site.api();
    let pod = json!({
        "metadata": {"name": "exporter", "labels": {"app": "nvidia-dcgm-exporter"}},
        "spec": {"nodeName": site.nodes().names()[0], "containers": [
            {"name": "exporter", "image": "exporter", "ports": [{"name": "metrics", "containerPort": port}]},
        ]},
    });
    let pod = serde_json::from_value(pod).unwrap();
    pods.create(&PostParams::default(), &pod).await.unwrap();
    let is_running = |pod: &Pod| {
        pod.status
            .as_ref()
            .is_some_and(|s| s.phase.as_deref() == Some("Running"))
    };
    wait_for(
        &pods,
        "exporter",
        std::time::Duration::from_secs(60),
        is_running,
    )
    .await
    .unwrap();
    let address = host_address();
    let moved = json!({"status": {"podIP": address, "podIPs": [{"ip": address}]}});
    pods.patch_status("exporter", &PatchParams::default(), &Patch::Merge(&moved))
        .await
        .unwrap();

    let output = scene.run_trellis(&[&top[..], &at].concat()).await;
    assert_eq!(output.status, 0, "{output:?}");
    let words = |name: &str| -> Vec<String> {
        let line = output.line_with(name).split_whitespace();
        line.map(str::to_owned).collect()
    };
    assert!(
        words("idle").ends_with(&["idle", "on", "1", "of", "2"].map(str::to_owned)),
        "{output:?}"
    );
    assert!(words("busy").contains(&"90".to_owned()), "{output:?}");
    assert!(output.out.contains("4 GPUs held"), "{output:?}");

    let json = [&top[..], &["idle", "-o", "json"], &at].concat();
    let json = scene.run_trellis(&json).await.json();
    assert_eq!(json["jobs"][0]["idle"], 1, "{json}");
    assert_eq!(json["jobs"][0]["each"][0]["utilization"], 0.0, "{json}");

    // A viewer of the namespace has no right to the pod proxy.
    let denied = scene.run_as_viewer(&site, &[&top[..], &at].concat()).await;
    assert_eq!(denied.status, 2, "{denied:?}");
    assert!(denied.err.contains("get pods/proxy"), "{denied:?}");
}
