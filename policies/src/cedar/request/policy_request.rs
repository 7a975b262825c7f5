//! The question that policies answer: one action on one resource. Each action has one row here.

use trellis_api::job_policy::{Action, TestResource};

use super::entity_kind::EntityKind;
use super::image::ImageReference;
use super::network_peer::NetworkPeer;
use super::object_name::{JobItself, NamespacedName};
use super::queue::QueueUse;
use super::resource::{InvalidTestRequest, Resource};
use super::secret::SecretRef;
use super::volume::VolumeRef;

/// One row an action: its meaning, the type of its resource, the resource's kind in policies, the
/// request in words, and how a job avoids the request.
macro_rules! requests {
    ($(
        $(#[doc = $doc:literal])+
        $action:ident($resource:ty) on $kind:ident {
            words: $words:expr,
            remedy: $remedy:expr,
        }
    )+) => {
        /// One action on one resource.
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum PolicyRequest {
            $($(#[doc = $doc])+ $action($resource),)+
        }

        impl PolicyRequest {
            /// The action.
            #[must_use]
            pub const fn action(&self) -> Action {
                match self { $(Self::$action(_) => Action::$action,)+ }
            }

            /// The resource.
            pub(super) fn resource(&self) -> &dyn Resource {
                match self { $(Self::$action(resource) => resource,)+ }
            }

            /// The request of that job, in words.
            pub(crate) fn describe(&self, job: &JobName<'_>) -> String {
                match self {
                    $(Self::$action(resource) => {
                        let words: fn(&$resource, &JobName<'_>) -> String = $words;
                        words(resource, job)
                    })+
                }
            }

            /// How a job avoids the request.
            pub(crate) fn remedy(&self) -> String {
                match self {
                    $(Self::$action(resource) => {
                        let remedy: fn(&$resource) -> String = $remedy;
                        remedy(resource)
                    })+
                }
            }

            /// Reads the request of a test. The action determines which fields of the resource it
            /// needs.
            pub(crate) fn from_test(
                namespace: &str,
                action: Action,
                resource: &TestResource,
            ) -> Result<Self, InvalidTestRequest> {
                match action {
                    $(Action::$action => {
                        <$resource as Resource>::from_test(namespace, resource).map(Self::$action)
                    })+
                }
            }
        }

        /// The kind of the resource that an action is done to.
        pub(super) const fn resource_kind(action: Action) -> EntityKind {
            match action { $(Action::$action => EntityKind::$kind,)+ }
        }

        /// The meaning of an action, in one sentence.
        pub(super) const fn meaning(action: Action) -> &'static str {
            match action { $(Action::$action => concat!($($doc),+),)+ }
        }
    };
}

requests! {
    /// To submit a job.
    Submit(JobItself) on TrainingJob {
        words: |_, job| format!("namespace {:?} submits the job {:?}", job.namespace, job.name),
        remedy: |_| "do without it".to_owned(),
    }
    /// To wait in a queue, and to hold what it gives.
    UseQueue(QueueUse) on Queue {
        words: |queue, job| crate::authorize::describe_queue_use(job.namespace, &queue.queue),
        remedy: QueueUse::remedy,
    }
    /// To have the priority of a class.
    UsePriorityClass(String) on PriorityClass {
        words: |class, _| crate::authorize::describe_priority_class(class),
        remedy: |_| "name another class, or none".to_owned(),
    }
    /// To be given nodes of a flavor. A task group that names none asks for all that its queue
    /// offers.
    UseFlavor(String) on ResourceFlavor {
        words: |flavor, _| format!("the job may be given the flavor {flavor:?}"),
        remedy: |_| "name others in taskGroups[].flavors".to_owned(),
    }
    /// To get new nodes of a flavor from an autoscaler. A job that may not waits for existing nodes.
    ProvisionNodes(String) on ResourceFlavor {
        words: |flavor, _| format!("the job may get new nodes of flavor {flavor:?}"),
        remedy: |_| "wait for existing nodes".to_owned(),
    }
    /// To run an image.
    UseImage(ImageReference) on Image {
        words: |image, _| format!("the job runs the image {:?}", image.0),
        remedy: |_| "use another image".to_owned(),
    }
    /// To run as a ServiceAccount.
    UseServiceAccount(NamespacedName) on ServiceAccount {
        words: |account, _| format!("the job runs as the ServiceAccount {:?}", account.name),
        remedy: |_| "do without it".to_owned(),
    }
    /// To read a Secret: mounted, in the environment, for pulling images, or from a store outside
    /// the cluster.
    UseSecret(SecretRef) on Secret {
        words: |secret, _| format!("the job reads {}", secret.short_description()),
        remedy: SecretRef::remedy,
    }
    /// To mount a claim, or to read a ConfigMap.
    UseVolume(VolumeRef) on Volume {
        words: |volume, _| volume.describe_use(),
        remedy: |_| "do without it".to_owned(),
    }
    /// To connect there.
    ConnectTo(NetworkPeer) on Endpoint {
        words: |peer, _| format!("the job connects to {}", peer.describe_peer()),
        remedy: |_| "do without it".to_owned(),
    }
    /// To be reached from there.
    AcceptFrom(NetworkPeer) on Endpoint {
        words: |peer, _| format!("the job is reached from {}", peer.describe_peer()),
        remedy: |_| "do without it".to_owned(),
    }
    /// To have a privilege beyond Pod Security "restricted".
    // The requests of a job name the task group and the field too (`job_requests`).
    UsePrivilege(String) on Privilege {
        words: |privilege, _| format!("the job uses the privilege {privilege:?}"),
        remedy: |_| "do without it".to_owned(),
    }
}

/// The job that makes a request.
pub(crate) struct JobName<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
}

impl PolicyRequest {
    /// The kind of the resource.
    pub(super) const fn kind(&self) -> EntityKind {
        resource_kind(self.action())
    }

    /// Returns true if a job runs without what it requests, where policies deny it.
    #[must_use]
    pub fn is_optional(&self) -> bool {
        matches!(self, Self::ProvisionNodes(_))
    }

    /// The resource, in words. None: the job itself.
    #[must_use]
    pub fn describe_resource(&self) -> Option<String> {
        self.resource().describe(self.kind().as_str())
    }
}
