//! The kinds that the operator watches: one row each. A [`WatchSink`] receives the objects of each
//! kind (`context`). The operator's rights to list and watch come from this table.

use std::borrow::Cow;
use std::fmt::Debug;
use std::sync::Arc;

use k8s_openapi::api::admissionregistration::v1::{
    MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding, MutatingWebhookConfiguration,
    ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
};
use k8s_openapi::api::core::v1::ResourceQuota;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::{Client, Resource};
use serde::de::DeserializeOwned;
use trellis_api::{
    ClusterJobPolicy, JobPolicy, PodGroup, QuotaLedger, QuotaPolicy, ResourceFlavor,
    RuntimeProfile, Topology, TrainingJob, TrainingQueue, names,
};
use trellis_cache::watch::Sink;
use trellis_gang::observed::{
    SlimAdmission, SlimClaim, SlimConfigMap, SlimDaemonSet, SlimDeviceClass, SlimExternalSecret,
    SlimNamespace, SlimNetworkPolicy, SlimNode, SlimPod, SlimService, SlimStorageClass, SlimVolume,
};

use crate::context::{Context, WatchSink};
use crate::tasks::Tasks;

/// A kind that the operator watches.
#[derive(Clone, Copy, Debug)]
pub struct WatchedKind {
    /// True if a replica that does not lead watches the kind for its webhook.
    pub is_for_webhook: bool,
    /// True if the cache waits for the list of the kind.
    counts_as_listed: bool,
    /// True if only the objects with the operator's label are watched.
    is_managed_only: bool,
    group: fn(&()) -> Cow<'_, str>,
    plural: fn(&()) -> Cow<'_, str>,
    start: fn(&mut Tasks, &Client, Option<String>, &Arc<Context>),
}

/// All watched kinds.
pub const WATCHED_KINDS: &[WatchedKind] = &[
    WatchedKind::new::<TrainingJob>(),
    WatchedKind::new::<PodGroup>(),
    WatchedKind::new::<TrainingQueue>().for_webhook(),
    WatchedKind::new::<ResourceFlavor>(),
    WatchedKind::new::<Topology>(),
    WatchedKind::new::<RuntimeProfile>().for_webhook(),
    WatchedKind::new::<ClusterJobPolicy>().for_webhook(),
    WatchedKind::new::<JobPolicy>().for_webhook(),
    WatchedKind::new::<QuotaPolicy>().for_webhook(),
    WatchedKind::new::<QuotaLedger>(),
    WatchedKind::new::<SlimAdmission<MutatingAdmissionPolicy>>(),
    WatchedKind::new::<SlimAdmission<MutatingAdmissionPolicyBinding>>(),
    WatchedKind::new::<SlimAdmission<MutatingWebhookConfiguration>>(),
    WatchedKind::new::<SlimAdmission<ValidatingAdmissionPolicy>>(),
    WatchedKind::new::<SlimAdmission<ValidatingAdmissionPolicyBinding>>(),
    WatchedKind::new::<SlimNamespace>().for_webhook(),
    WatchedKind::new::<PriorityClass>().for_webhook(),
    WatchedKind::new::<SlimService>().for_webhook(),
    WatchedKind::new::<SlimNetworkPolicy>().managed_only(),
    WatchedKind::new::<SlimConfigMap>().managed_only(),
    WatchedKind::new::<SlimExternalSecret>().managed_only(),
    WatchedKind::new::<ResourceQuota>(),
    WatchedKind::new::<SlimNode>(),
    WatchedKind::new::<SlimPod>(),
    WatchedKind::new::<SlimDaemonSet>(),
    WatchedKind::new::<SlimClaim>(),
    WatchedKind::new::<SlimVolume>(),
    WatchedKind::new::<SlimStorageClass>(),
    WatchedKind::new::<SlimDeviceClass>(),
];

impl WatchedKind {
    const fn new<K>() -> Self
    where
        K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
        WatchSink: Sink<K>,
    {
        Self {
            is_for_webhook: false,
            counts_as_listed: <WatchSink as Sink<K>>::COUNTS_AS_LISTED,
            is_managed_only: false,
            group: K::group,
            plural: K::plural,
            start: Tasks::watch::<K>,
        }
    }

    const fn for_webhook(mut self) -> Self {
        self.is_for_webhook = true;
        self
    }

    const fn managed_only(mut self) -> Self {
        self.is_managed_only = true;
        self
    }

    /// API group of the kind. Empty: the core group.
    #[must_use]
    pub fn group(&self) -> Cow<'_, str> {
        (self.group)(&())
    }

    /// Plural name of the kind, as in RBAC rules.
    #[must_use]
    pub fn plural(&self) -> Cow<'_, str> {
        (self.plural)(&())
    }
}

/// Starts a watch of each of these kinds. The context's cache is synced once all of them are
/// listed.
pub fn start_watches<'a>(
    kinds: impl IntoIterator<Item = &'a WatchedKind>,
    client: &Client,
    context: &Arc<Context>,
    tasks: &mut Tasks,
) {
    let kinds: Vec<_> = kinds.into_iter().collect();
    let counted = kinds.iter().filter(|kind| kind.counts_as_listed);
    context.cache.expect_kinds(counted.count());
    for kind in kinds {
        let label = || format!("{}={}", names::MANAGED_BY, names::MANAGER);
        let labels = kind.is_managed_only.then(label);
        (kind.start)(tasks, client, labels, context);
    }
}
