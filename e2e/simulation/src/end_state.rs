//! The state of the jobs when nothing has happened for a long time.

use serde_json::Value;
use trellis_api::job::JobPhase;
use trellis_api_server::ApiServer;

use crate::cluster;
use crate::script::Script;

/// Describes the jobs that should have ended: the cluster and the queues have room for each, and no
/// user holds them back.
pub(crate) fn unfinished_jobs(server: &ApiServer, script: &Script) -> Vec<String> {
    let is_closed = |node: &Value| {
        node["spec"]["unschedulable"] == true
            || !node["metadata"]["labels"][cluster::HEALTH_LABEL].is_null()
    };
    if server
        .list(&cluster::NODES)
        .any(|node| is_closed(node.value()))
    {
        return Vec::new();
    }
    let quota = cluster::total_quota(server);
    let jobs = server.list(&cluster::TRAINING_JOBS);
    let unfinished = jobs.filter_map(|job| {
        let job = job.value();
        let spec = script
            .jobs
            .iter()
            .find(|spec| job["metadata"]["name"] == spec.name.as_str())?;
        let gpus = spec.gang_size() * spec.gpus;
        let room = |node: &u32| node.checked_div(spec.gpus).unwrap_or(u32::MAX);
        let slice_pods = spec.slice_pods();
        let racks = script.nodes.chunks(script.rack_nodes.max(1));
        let places = racks.map(|nodes| {
            let places = nodes.iter().map(room).fold(0, u32::saturating_add);
            places / slice_pods * slice_pods
        });
        let places = places.fold(0, u32::saturating_add);
        let new = script.autoscaler.as_ref().map_or(0, |autoscaler| {
            autoscaler
                .reliable_nodes(script)
                .saturating_mul(room(&autoscaler.gpus))
        });
        let places = places.saturating_add(new);
        let status = &job["status"];
        let phase: Option<JobPhase> = serde_json::from_value(status["phase"].clone()).ok();
        if job["spec"]["suspend"] == true
            || places < spec.gang_size()
            || quota.is_some_and(|quota| u64::from(gpus) > quota)
            || phase.is_some_and(JobPhase::is_terminal)
        {
            return None;
        }
        Some(format!(
            "unfinished: job {} is still {}: {}",
            spec.name, status["phase"], status["message"]
        ))
    });
    unfinished.collect()
}
