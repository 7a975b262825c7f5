//! The headless Service, with every pod of the job by name, and the Service of the leader.

use k8s_openapi::api::core::v1::{ContainerPort, Service, ServiceSpec};
use trellis_api::{ValidatedJob, names};

use super::metadata;
use crate::{CompiledGroup, ports};

pub(crate) fn build(job: &ValidatedJob, groups: &[CompiledGroup]) -> Service {
    let containers: Vec<ContainerPort> = groups.iter().flat_map(CompiledGroup::ports).collect();
    let ports = ports::service_ports(&containers);
    Service {
        metadata: metadata::child_metadata(job),
        spec: Some(ServiceSpec {
            cluster_ip: Some("None".to_owned()),
            // Ranks look for each other before any of them is ready.
            publish_not_ready_addresses: Some(true),
            selector: Some(metadata::job_uid_label(job)),
            ports: (!ports.is_empty()).then_some(ports),
            ..ServiceSpec::default()
        }),
        status: None,
    }
}

/// The Service of the leader's pod, if the framework gives it one.
pub(crate) fn build_for_leader(job: &ValidatedJob, groups: &[CompiledGroup]) -> Option<Service> {
    let leader = &job.spec().leader_with_service()?.name;
    let group = groups.iter().find(|group| group.name() == leader)?;
    let mut selector = metadata::job_uid_label(job);
    selector.insert(names::GROUP.to_owned(), leader.clone());
    let mut metadata = metadata::child_metadata(job);
    metadata.name = Some(names::leader_service_name(job.name(), leader));
    Some(Service {
        metadata,
        spec: Some(ServiceSpec {
            cluster_ip: Some("None".to_owned()),
            selector: Some(selector),
            ports: Some(ports::service_ports(&group.ports())),
            ..ServiceSpec::default()
        }),
        status: None,
    })
}
