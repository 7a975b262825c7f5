//! Open MPI: mpirun in the launcher connects to the workers by ssh.

use serde_json::json;

use crate::fixtures::{RealNodesFixture, TrialNamespace, TrialOutcome};

/// Two workers with two slots each. The processes compute the sum of their ranks.
pub(crate) async fn test_allreduce(
    _: &'static RealNodesFixture,
    place: TrialNamespace,
) -> TrialOutcome {
    place.create_program("sum.py", include_str!("mpi.py")).await;
    let mut job = place.job_running("j", 2, &[]);
    let groups = job["spec"]["taskGroups"].as_array_mut().unwrap();
    let mut launcher = groups[0].clone();
    // Pods without a command run sshd.
    groups[0].as_object_mut().unwrap().remove("command");
    groups[0]["gpus"] = json!(2);
    launcher["name"] = json!("launcher");
    launcher["role"] = json!("Launcher");
    launcher["replicas"] = json!(1);
    launcher["gpus"] = json!(0);
    launcher["command"] = json!(["mpirun", "-n", "4", "python3", "/app/sum.py"]);
    groups.push(launcher);
    job["spec"]["framework"] = json!("MPI");
    job["spec"]["securityContext"] = json!({"runAsUser": 1000});
    place.create(job).await.unwrap();
    place.wait_until_complete("j").await;
    let logs = place.pod_logs("j").await;
    let (_, launcher_log) = logs.iter().find(|(pod, _)| pod == "j-launcher-0").unwrap();
    for rank in 0..4 {
        let host = format!("j-worker-{}", rank / 2);
        let line = format!("rank {rank} of 4 on {host}: 6");
        assert!(
            launcher_log.lines().any(|l| l == line),
            "no {line:?}: {logs:#?}"
        );
    }
    TrialOutcome::Passed
}
