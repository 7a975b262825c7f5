//! Ray: the head, the workers and the script that runs in both. The script runs with a fake `ray`
//! and `python3`; `e2e/tests/real_nodes/ray.rs` runs it with the real ones.

use trellis_compiler::{CompiledJob, Demand};

use super::scripts::ScriptRunner;
use super::support::{PLACEMENT, compile_job, container, env_value, files, job, words};

const ADDRESS: &str = "llm-head-0.llm.team-a.svc.cluster.local:6379";

fn ray(head: &str, worker: &str) -> CompiledJob {
    compile_job(job(&format!(
        "framework: Ray\ntaskGroups:\n\
         - {{name: worker, image: i, replicas: 2, gpus: 4, resources: {{limits: {{cpu: 1, memory: 1Gi}}}}, {worker}}}\n\
         - {{name: head, image: i, role: Coordinator, resources: {{limits: {{cpu: 1, memory: 1Gi}}}}, {head}}}\n"
    )))
}

/// Command and arguments of the first pod of a group.
fn group_words(job: &CompiledJob, group: usize) -> Vec<String> {
    words(&job.groups()[group].pod(0, &PLACEMENT))
}

#[test]
fn head_runs_its_command_as_the_driver() {
    let start = ["/etc/trellis/hosts/ray", "--num-gpus=0", "--"];
    for (head, driver) in [
        ("command: [python, t.py]", vec!["python", "t.py"]),
        ("command: [python], args: [t.py]", vec!["python", "t.py"]),
        (
            "podTemplate: {spec: {containers: [{name: main, command: [own]}]}}",
            vec!["own"],
        ),
        ("", vec![]),
    ] {
        assert_eq!(
            group_words(&ray(head, ""), 1),
            [&start[..], &driver].concat()
        );
    }
}

#[test]
fn worker_joins_the_head_unless_it_has_a_command() {
    let start = ["/etc/trellis/hosts/ray", "--num-gpus=4", "--"];
    assert_eq!(group_words(&ray("", ""), 0), start);
    assert_eq!(group_words(&ray("", "command: [own]"), 0), ["own"]);
    assert_eq!(group_words(&ray("", "args: [own]"), 0), ["own"]);
}

#[test]
fn ray_pods_know_the_address_and_are_ready_once_they_have_joined() {
    let job = ray("", "");
    for group in job.groups() {
        let pod = group.pod(0, &PLACEMENT);
        assert_eq!(env_value(&pod, "RAY_ADDRESS").as_deref(), Some(ADDRESS));
        let probe = container(&pod).readiness_probe.as_ref().unwrap();
        assert!(probe.tcp_socket.is_some());
    }
    let own =
        "podTemplate: {spec: {containers: [{name: main, readinessProbe: {exec: {command: [x]}}}]}}";
    let pod = ray("", own).groups()[0].pod(0, &PLACEMENT);
    let probe = container(&pod).readiness_probe.as_ref().unwrap();
    assert!(probe.exec.is_some() && probe.tcp_socket.is_none());
    // The job's own ConfigMap needs no permit.
    let own = Demand::UseConfigMap("llm-hosts".to_owned());
    assert!(!job.demands().contains(&own));
}

#[test]
fn head_has_a_service_of_its_own() {
    let job = ray("", "ports: [{name: extra, port: 9000}]");
    let services = job.services();
    let names: Vec<_> = services
        .iter()
        .map(|s| s.metadata.name.as_deref())
        .collect();
    assert_eq!(names, [Some("llm"), Some("llm-head")]);
    let head = services[1].spec.as_ref().unwrap();
    let selector = head.selector.as_ref().unwrap();
    assert_eq!(selector["trellis.dev/group"], "head");
    let ports = head.ports.iter().flatten();
    let ports: Vec<_> = ports
        .map(|port| (port.name.as_deref(), port.port))
        .collect();
    let expected = [
        (Some("gcs"), 6379),
        (Some("raylet"), 6380),
        (Some("dashboard"), 8265),
        (Some("client"), 10001),
    ];
    assert_eq!(ports, expected);
    // Other frameworks have the headless Service alone.
    let other = job_of("PyTorch");
    assert_eq!(other.services().len(), 1);
}

fn job_of(framework: &str) -> CompiledJob {
    compile_job(job(&format!(
        "framework: {framework}\ntaskGroups:\n\
         - {{name: head, image: i, role: Coordinator, resources: {{limits: {{cpu: 1, memory: 1Gi}}}}}}\n"
    )))
}

/// The programs that the script runs, and its exit status. The head answers at the second try.
fn run_script(job: &CompiledJob, rank: &str, arguments: &[&str]) -> Vec<String> {
    let scripts = ScriptRunner::new(
        files(job),
        &[
            ("sleep", "echo sleep $* >>$ROOT/log"),
            (
                "ray",
                "echo \"ray $* (${RAY_ADDRESS-no address})\" >>$ROOT/log; \
                 [ $1 != health-check ] || [ \"$(grep -c health-check $ROOT/log)\" -gt 1 ]",
            ),
            ("python3", "cat >/dev/null; echo python3 $* >>$ROOT/log"),
            ("driver", "echo driver $* >>$ROOT/log; exit 3"),
        ],
    );
    let env = [
        ("TRELLIS_RANK", rank),
        ("RAY_ADDRESS", "address"),
        ("RAY_START_ARGS", "--num-cpus=2"),
    ];
    let output = scripts.run_with_env("hosts/ray", arguments, &env);
    let mut log = scripts.log();
    log.push(format!("exit {}", output.status.code().unwrap()));
    log
}

#[test]
fn head_script_waits_for_all_workers_before_the_driver() {
    let head = "ray start --num-gpus=0 --num-cpus=2 --node-manager-port=6380 --head --port=6379 \
                --dashboard-host=0.0.0.0 --dashboard-port=8265";
    let job = ray("", "");
    assert_eq!(
        run_script(&job, "0", &["--num-gpus=0", "--", "driver", "a b"]),
        [
            &format!("{head} (no address)"),
            "python3 - 3 1800",
            "driver a b",
            "exit 3"
        ]
    );
    // An elastic job starts with its gang.
    let elastic = ray("", "minReplicas: 1");
    let log = run_script(&elastic, "0", &["--num-gpus=0", "--", "driver"]);
    assert_eq!(log[1], "python3 - 2 1800");
    // A worker with a command of its own need not join.
    let other = ray("", "command: [tensorboard]");
    let log = run_script(&other, "0", &["--num-gpus=0", "--", "driver"]);
    assert_eq!(log[1], "python3 - 1 1800");
    let alone = run_script(&job, "0", &["--num-gpus=0", "--"]);
    assert_eq!(alone, [&format!("{head} --block (no address)"), "exit 0"]);
}

#[test]
fn worker_script_waits_for_the_head() {
    let check = format!("ray health-check --address {ADDRESS} (address)");
    assert_eq!(
        run_script(&ray("", ""), "2", &["--num-gpus=4", "--"]),
        [
            check.as_str(),
            "sleep 1",
            &check,
            &format!(
                "ray start --num-gpus=4 --num-cpus=2 --node-manager-port=6380 \
                 --address={ADDRESS} --block (address)"
            ),
            "exit 0"
        ]
    );
}
