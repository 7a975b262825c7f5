//! MPI: hosts, the key and the scripts. The scripts run with fake ssh and sshd programs that record
//! their arguments.

use k8s_openapi::api::core::v1::Secret;
use trellis_compiler::{CompiledJob, Demand};

use super::scripts::{ScriptRunner, program_exists};
use super::support::{PLACEMENT, UID, compile_job, container, env_value, files, job, spec, words};

fn mpi(launcher: &str, worker: &str) -> CompiledJob {
    compile_job(job(&format!(
        "framework: MPI\ntaskGroups:\n\
         - {{name: worker, image: i, replicas: 2, resources: {{limits: {{cpu: 1, memory: 1Gi}}}}, {worker}}}\n\
         - {{name: launcher, image: i, role: Launcher, resources: {{limits: {{cpu: 1, memory: 1Gi}}}}, {launcher}}}\n"
    )))
}

#[test]
fn hostfile_lists_workers_and_launchers_with_gpus() {
    let host = |pod: &str| format!("llm-{pod}.llm.team-a.svc.cluster.local");
    let hosts = files(&mpi("", "gpus: 8"));
    let (one, two) = (host("worker-0"), host("worker-1"));
    assert_eq!(hosts["hostfile"], format!("{one} slots=8\n{two} slots=8\n"));
    assert_eq!(hosts["hostfile.hydra"], format!("{one}:8\n{two}:8\n"));
    let hosts = files(&mpi("gpus: 4", "gpus: 8"));
    let launcher = host("launcher-0");
    assert_eq!(
        hosts["hostfile.hydra"],
        format!("{launcher}:4\n{one}:8\n{two}:8\n")
    );
    let alone = compile_job(job(
        "framework: MPI\ntaskGroups:\n- {name: l, image: i, role: Launcher, resources: {limits: {cpu: 1, memory: 1Gi}}}\n",
    ));
    assert_eq!(
        files(&alone)["hostfile"],
        format!("{} slots=1\n", host("l-0"))
    );
}

#[test]
fn mpi_worker_runs_sshd_and_launcher_without_gpus_sees_no_devices() {
    let job = mpi("command: [mpirun]", "gpus: 8");
    let (worker, launcher) = (
        job.groups()[0].pod(1, &PLACEMENT),
        job.groups()[1].pod(0, &PLACEMENT),
    );
    let sshd = vec!["/etc/trellis/hosts/sshd".to_owned()];
    assert_eq!(container(&worker).command, Some(sshd));
    assert_eq!(
        container(&launcher).command,
        Some(vec!["mpirun".to_owned()])
    );
    let none = env_value(&launcher, "NVIDIA_VISIBLE_DEVICES");
    assert_eq!(none.as_deref(), Some(""));
    assert_eq!(env_value(&worker, "NVIDIA_VISIBLE_DEVICES"), None);
    assert_eq!(env_value(&launcher, "TRELLIS_RANK").unwrap(), "0");
    assert_eq!(env_value(&worker, "TRELLIS_RANK").unwrap(), "2");

    for said in [
        "command: [own]",
        "args: [own]",
        "podTemplate: {spec: {containers: [{name: main, command: [own]}]}}",
        "podTemplate: {spec: {containers: [{name: main, args: [own]}]}}",
    ] {
        let job = mpi("command: [mpirun]", said);
        let pod = job.groups()[0].pod(0, &PLACEMENT);
        assert_eq!(words(&pod), ["own"], "{said}");
    }
    // Nor does a launcher run it.
    let job = mpi("gpus: 1", "gpus: 8");
    let launcher = job.groups()[1].pod(0, &PLACEMENT);
    assert_eq!(container(&launcher).command, None);
    assert_eq!(env_value(&launcher, "NVIDIA_VISIBLE_DEVICES"), None);
}

#[test]
fn mpi_config_map_and_key_are_mounted_without_a_demand() {
    let job = mpi("command: [mpirun]", "mounts: [{secretName: s, path: /s}]");
    let pod = job.groups()[0].pod(0, &PLACEMENT);
    let names: Vec<_> = spec(&pod)
        .volumes
        .iter()
        .flatten()
        .map(|v| v.name.as_str())
        .collect();
    // Pod templates may not use volumes of these names.
    assert_eq!(names, ["secret-0", "config-map-1", "secret-2"]);
    let paths = container(&pod).volume_mounts.iter().flatten();
    let paths: Vec<_> = paths
        .map(|m| (m.mount_path.as_str(), m.read_only))
        .collect();
    let expected = [
        ("/s", None),
        ("/etc/trellis/hosts", Some(true)),
        ("/etc/trellis/ssh", Some(true)),
    ];
    assert_eq!(paths, expected);
    let secrets = job.demands().iter().filter_map(|demand| match demand {
        Demand::UseSecret(name) | Demand::UseConfigMap(name) => Some(name.as_str()),
        _ => None,
    });
    assert_eq!(secrets.collect::<Vec<_>>(), ["s"]);
}

fn text(secret: &Secret, key: &str) -> String {
    let data = secret.data.as_ref().unwrap();
    String::from_utf8(data[key].0.clone()).unwrap()
}

#[test]
fn ssh_key_comes_from_the_random_bytes_and_changes_no_hash() {
    let job = mpi("", "");
    let mut random = [0x5a; 66];
    let secret = job.key_secret(random).unwrap();
    assert_eq!(secret.type_.as_deref(), Some("kubernetes.io/ssh-auth"));
    assert_eq!(secret.metadata.name, job.key_secret_name());
    assert_eq!(job.key_secret_name().unwrap(), "llm-ssh-5f2c9a1e");
    let owner = &secret.metadata.owner_references.as_ref().unwrap()[0];
    assert_eq!(owner.uid, UID);
    let public = text(&secret, "authorized_keys");
    // Public key of the scalar 0x005a5a..., as `ssh-keygen -y` prints it for the private key.
    insta::assert_snapshot!(public);
    assert_eq!(text(&secret, "known_hosts"), format!("* {public}"));
    let private = text(&secret, "ssh-privatekey");
    assert!(private.starts_with("-----BEGIN EC PRIVATE KEY-----\n"));

    assert_eq!(job.key_secret(random), Some(secret.clone()));
    random[65] ^= 1;
    let another = job.key_secret(random).unwrap();
    assert_ne!(text(&another, "ssh-privatekey"), private);
    assert_ne!(text(&another, "authorized_keys"), public);
    // Neither zero nor more than the order of the curve is a key; the first seven bits are cut off.
    assert_eq!(job.key_secret([0; 66]), None);
    assert_eq!(job.key_secret([0xff; 66]), None);
    assert_eq!(mpi("", "").hash(), job.hash());
}

/// Bytes of the values of its ConfigMap.
fn size(job: &CompiledJob) -> usize {
    files(job).values().map(String::len).sum()
}

#[test]
fn job_is_refused_when_its_config_map_exceeds_one_mebibyte() {
    let of = |group: &str, replicas: u32| {
        let mut job = job(&format!(
            "framework: MPI\ntaskGroups:\n\
             - {{name: {group}, image: i, replicas: {replicas}, resources: {{limits: {{cpu: 1, memory: 1Gi}}}}}}\n\
             - {{name: launcher, image: i, role: Launcher, resources: {{limits: {{cpu: 1, memory: 1Gi}}}}}}\n"
        ));
        job.metadata.name = Some("j".repeat(33));
        job.metadata.namespace = Some("n".repeat(63));
        compile_job(job)
    };
    let mib = 1024 * 1024;
    let long = "a".repeat(24);
    let fits = |replicas: &u32| size(&of(&long, *replicas)) <= mib;
    let most = (1..4096).collect::<Vec<_>>().partition_point(fits);
    let most = u32::try_from(most).unwrap();
    assert!((2000..4095).contains(&most), "{most}");
    assert_eq!(of(&long, most).config_map_problem(), None);
    let more = of(&long, most.saturating_add(1));
    let message = more.config_map_problem().unwrap();
    assert!(message.contains(&size(&more).to_string()), "{message}");
    for words in ["spec.taskGroups: ", "1048576", "shorter names"] {
        assert!(message.contains(words), "{message}");
    }
}

#[test]
fn required_objects_exclude_objects_created_with_the_job() {
    assert_eq!(mpi("", "").required_objects().len(), 0);
    let own = "mounts: [{secretName: s, path: /s}, {configMapName: other, path: /m}]";
    let needs = mpi("", own).required_objects();
    let needs: Vec<_> = needs
        .keys()
        .map(|need| (need.kind(), need.name()))
        .collect();
    assert_eq!(needs, [("ConfigMap", "other"), ("Secret", "s")]);
}

#[test]
fn ssh_script_waits_for_the_host_and_then_runs_the_command() {
    assert!(program_exists("sh"));
    // Unreachable twice.
    let shell = ScriptRunner::new(
        files(&mpi("", "")),
        &[
            ("id", "echo 1000"),
            ("sleep", "echo sleep $* >>$ROOT/log"),
            (
                "ssh",
                "echo \"ssh $*\" >>$ROOT/log; [ \"$(grep -c ' true$' $ROOT/log)\" -gt 2 ]",
            ),
        ],
    );
    let done = shell.run(
        "hosts/ssh",
        &[
            "-x", "-o", "A=b", "-q", "node-1", "prted", "--x", "-o", "y z",
        ],
    );
    assert!(done.status.success(), "{done:?}");
    let ask = "ssh -F /hosts/ssh_config -i /ssh/key -n -q node-1 true";
    let run = "ssh -F /hosts/ssh_config -i /ssh/key -x -o A=b -q node-1 prted --x -o y z";
    assert_eq!(shell.log(), [ask, "sleep 1", ask, "sleep 1", ask, run]);
}

#[test]
fn ssh_script_as_root_uses_the_root_key_and_gives_up() {
    let shell = ScriptRunner::new(
        files(&mpi("", "")),
        &[
            ("id", "echo 0"),
            ("sleep", ":"),
            ("ssh", "echo \"ssh $*\" >>$ROOT/log; exit 255"),
        ],
    );
    let done = shell.run("hosts/ssh", &["node-1", "prted"]);
    assert_eq!(done.status.code(), Some(255));
    let log = shell.log();
    assert_eq!(log.len(), 301);
    let run = "ssh -F /hosts/ssh_config -i /ssh/root-key node-1 prted";
    assert_eq!(log.last().unwrap(), run);
}

#[test]
fn sshd_script_runs_as_the_container_user_or_explains_its_failure() {
    let sshd = ("sshd", "for word; do echo \"$word\" >>$ROOT/log; done");
    let shell = ScriptRunner::new(files(&mpi("", "")), &[("id", "echo 1000"), sshd]);
    assert!(shell.run("hosts/sshd", &[]).status.success());
    let path = format!("{}/bin:/usr/bin:/bin", "");
    let set = format!("SetEnv \"PATH={path}\" \"LD_LIBRARY_PATH=\"");
    let expected = [
        "-D",
        "-e",
        "-f",
        "/hosts/sshd_config",
        "-h",
        "/ssh/key",
        "-o",
        &set,
    ];
    assert_eq!(shell.log(), expected);

    for (capabilities, runs) in [("0000000000000000", false), ("00000000a80425fb", true)] {
        let sed = format!("echo {capabilities}");
        let shell = ScriptRunner::new(
            files(&mpi("", "")),
            &[("id", "echo 0"), ("sed", &sed), sshd],
        );
        let done = shell.run("hosts/sshd", &[]);
        assert_eq!(done.status.success(), runs);
        let said = String::from_utf8(done.stderr).unwrap();
        assert_eq!(said.contains("spec.securityContext.runAsUser"), !runs);
        assert_eq!(shell.log().contains(&"/ssh/root-key".to_owned()), runs);
    }
}
