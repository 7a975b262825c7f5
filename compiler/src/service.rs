//! The headless Service: every pod of the job by name.

use k8s_openapi::api::core::v1::{ContainerPort, Service, ServiceSpec};
use trellis_api::ValidatedJob;

use crate::{CompiledGroup, metadata, ports};

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
