//! ProvisioningRequests of an order, one for each flavor, because Cluster Autoscaler adds the nodes
//! of a request to one node group.

use k8s_openapi::api::core::v1::{PodTemplate, PodTemplateSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::ObjectMeta;
use trellis_api::names;

use super::cluster_autoscaler::{
    PodSet, ProvisioningRequest, ProvisioningRequestSpec, TemplateName,
};
use super::{OrderObjectBuilder, request_flavors, request_settings_of};

/// A ProvisioningRequest with the PodTemplates that it names. They must exist first.
#[derive(Clone, Debug)]
pub struct FlavorRequest {
    /// One template for each task group.
    pub templates: Vec<PodTemplate>,
    /// The request.
    pub request: ProvisioningRequest,
}

impl OrderObjectBuilder<'_> {
    /// Returns the requests of the order, in the namespace of the job. `owner` is the job's
    /// PodGroup, with which they are deleted.
    #[must_use]
    pub fn requests(&self, owner: &OwnerReference) -> Vec<FlavorRequest> {
        let flavors = request_flavors(self.nodes, self.flavors);
        let requests = flavors.into_iter().enumerate();
        requests
            .filter_map(|(number, flavor)| self.flavor_request(number, flavor, owner))
            .collect()
    }

    fn flavor_request(
        &self,
        number: usize,
        flavor: &str,
        owner: &OwnerReference,
    ) -> Option<FlavorRequest> {
        let wanted = request_settings_of(flavor, self.flavors)?;
        let namespace = self.run.job.compiled().job().namespace();
        let metadata = |number| ObjectMeta {
            owner_references: Some(vec![owner.clone()]),
            ..self.metadata(namespace, number)
        };
        let (mut templates, mut pod_sets) = (Vec::new(), Vec::new());
        for (number, group) in self.groups() {
            if self.request_flavor(group) != Some(flavor) {
                continue;
            }
            let metadata = metadata(number);
            pod_sets.push(PodSet {
                pod_template_ref: TemplateName {
                    name: metadata.name.clone().unwrap_or_default(),
                },
                count: i64::from(group.gang_size()),
            });
            templates.push(PodTemplate {
                metadata,
                template: Some(PodTemplateSpec {
                    metadata: None,
                    spec: Some(self.pod_spec(group)),
                }),
            });
        }
        let mut metadata = metadata(number);
        let labels = metadata.labels.get_or_insert_default();
        labels.insert(names::ORDERED_FLAVOR.to_owned(), flavor.to_owned());
        let request = ProvisioningRequest {
            metadata,
            spec: ProvisioningRequestSpec {
                pod_sets,
                provisioning_class_name: wanted.provisioning_class_name.clone(),
                parameters: wanted.parameters.clone(),
            },
            status: None,
        };
        Some(FlavorRequest { templates, request })
    }
}
