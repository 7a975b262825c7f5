//! The cluster of the kubeconfig, read and never written.

pub(crate) use crate::cluster::Access;
use crate::cluster::{Hints, Unread, list, named};
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use k8s_openapi::api::core::v1::ResourceQuota;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ListParams, PostParams};
use kube::{Api, Client};
use trellis_api::{PodGroup, QuotaLedger, QuotaPolicy, ResourceFlavor, Topology, TrainingJob};
use trellis_cache::policy::requester_of;
use trellis_compiler::Profile;
use trellis_gang::claims;
use trellis_gang::claims::What;
use trellis_gang::observed::{
    SlimClaim, SlimDaemonSet, SlimDeviceClass, SlimNode, SlimPod, SlimStorageClass, SlimVolume,
    default_class,
};
use trellis_policies::cedar::Requester;

use super::facts;
use super::snapshot::{self, Snapshot};

/// What a cluster is read for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Purpose {
    /// To plan jobs.
    Plan,
    /// To have policies decide about jobs.
    Policies,
}

impl Purpose {
    /// What to do where the cluster is of no use.
    const fn offline(self) -> &'static str {
        match self {
            Self::Plan => {
                "to plan without a cluster, give its nodes by --nodes FILE, where FILE is what `kubectl get nodes -o yaml` wrote"
            }
            Self::Policies => {
                "to do without a cluster, leave --cluster out, and give jobs, policies, TrainingQueues and Namespaces by -f FILE"
            }
        }
    }

    /// What to do where something cannot be read.
    fn hints(self) -> Hints {
        Hints {
            rights: self.rights(),
            otherwise: Some(self.offline()),
        }
    }

    /// Who we are to the API server.
    const fn agent(self) -> &'static str {
        match self {
            Self::Plan => concat!("trellis-plan/", env!("CARGO_PKG_VERSION")),
            Self::Policies => concat!("trellis-policy/", env!("CARGO_PKG_VERSION")),
        }
    }

    /// Which rights it takes.
    fn rights(self) -> String {
        match self {
            Self::Plan => format!(
                "a plan gets and lists {} of all namespaces: docs/plan.md has the ClusterRole",
                snapshot::resources()
            ),
            Self::Policies => "policies decide by clusterjobpolicies, jobpolicies, trainingqueues, runtimeprofiles, trainingjobs, podgroups, priorityclasses, namespaces and services of all namespaces, which are got and listed: the ClusterRole of docs/plan.md has all of them".to_owned(),
        }
    }
}

/// What is seen of a cluster.
pub(crate) struct Seen {
    pub(crate) snapshot: Snapshot,
    /// What the user might not expect.
    pub(crate) notes: Vec<String>,
}

/// A cluster that can be read.
pub(crate) struct Cluster {
    purpose: Purpose,
    cluster: crate::cluster::Cluster,
}

impl Cluster {
    /// Finds the cluster. Whether it answers, the first read shows.
    pub(crate) fn connect(access: &Access, purpose: Purpose) -> anyhow::Result<Self> {
        let offline = Some(purpose.offline());
        let cluster = crate::cluster::Cluster::connect(access, purpose.agent(), offline)?;
        Ok(Self { purpose, cluster })
    }

    /// The namespace of the context.
    pub(crate) fn namespace(&self) -> &str {
        self.cluster.namespace()
    }

    /// Reads all that a plan of these jobs depends on.
    pub(super) fn read(&self, jobs: &[TrainingJob]) -> anyhow::Result<Seen> {
        let seen = self.cluster.wait_for(read(self.cluster.client(), jobs));
        seen.map_err(|unread| unread.explain(&self.purpose.hints()))
    }

    /// Reads what policies decide about these jobs by, and the policies.
    pub(crate) fn facts(&self, jobs: &[TrainingJob]) -> anyhow::Result<Seen> {
        let mut snapshot = Snapshot::default();
        let notes = self
            .cluster
            .wait_for(facts::read(self.cluster.client(), jobs, &mut snapshot))
            .map_err(|unread| unread.explain(&self.purpose.hints()))?;
        Ok(Seen { snapshot, notes })
    }

    /// Those of the jobs that are there, as they are there.
    pub(crate) fn named(&self, jobs: &[TrainingJob]) -> anyhow::Result<Vec<TrainingJob>> {
        let found = self
            .cluster
            .wait_for(facts::of_names(self.cluster.client(), jobs));
        found.map_err(|unread| unread.explain(&self.purpose.hints()))
    }

    /// Who we are to the cluster, as the stamp of what we write would say. None: it does not
    /// say, which is nothing to fail for.
    pub(super) fn whoami(&self) -> Option<Requester> {
        let api = Api::<SelfSubjectReview>::all(self.cluster.client().clone());
        let question = SelfSubjectReview::default();
        let params = PostParams::default();
        let answer = self.cluster.wait_for(api.create(&params, &question)).ok()?;
        requester_of(&answer.status?.user_info?)
    }

    /// Every TrainingJob.
    pub(crate) fn jobs(&self) -> anyhow::Result<Vec<TrainingJob>> {
        let jobs = self.cluster.wait_for(facts::jobs(self.cluster.client()));
        jobs.map_err(|unread| unread.explain(&self.purpose.hints()))
    }

    /// Every PodGroup.
    pub(crate) fn pod_groups(&self) -> anyhow::Result<Vec<PodGroup>> {
        let groups = self
            .cluster
            .wait_for(facts::pod_groups(self.cluster.client()));
        groups.map_err(|unread| unread.explain(&self.purpose.hints()))
    }
}

async fn read(client: &Client, jobs: &[TrainingJob]) -> Result<Seen, Unread> {
    let mut seen = Snapshot {
        now: Some(Timestamp::now()),
        ..Snapshot::default()
    };
    let snapshot = &mut seen;
    let everything = ListParams::default();
    for node in list(&Api::<SlimNode>::all(client.clone()), &everything)
        .await?
        .unwrap_or_default()
    {
        snapshot.node(node);
    }
    // Only these hold something of a node.
    let holding = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed";
    let holding = ListParams::default().fields(holding);
    for pod in list(&Api::<SlimPod>::all(client.clone()), &holding)
        .await?
        .unwrap_or_default()
    {
        snapshot.pod(pod);
    }
    let notes = facts::read(client, jobs, snapshot).await?;
    let quotas = list(&Api::<QuotaPolicy>::all(client.clone()), &everything).await?;
    for quota in quotas.unwrap_or_default() {
        snapshot.quota_policy(quota);
    }
    let ledgers = list(&Api::<QuotaLedger>::all(client.clone()), &everything).await?;
    for ledger in ledgers.unwrap_or_default() {
        snapshot.quota_ledger(ledger);
    }
    // Those that are planned may be there, and others may wait before them.
    for job in facts::jobs(client).await? {
        snapshot.job(job);
    }
    for flavor in list(&Api::<ResourceFlavor>::all(client.clone()), &everything)
        .await?
        .unwrap_or_default()
    {
        snapshot.flavor(flavor);
    }
    for topology in list(&Api::<Topology>::all(client.clone()), &everything)
        .await?
        .unwrap_or_default()
    {
        snapshot.topology(topology);
    }
    for group in facts::pod_groups(client).await? {
        snapshot.pod_group(group);
    }
    for namespace in facts::namespaces(jobs) {
        let quotas: Api<ResourceQuota> = Api::namespaced(client.clone(), namespace);
        for quota in list(&quotas, &everything).await?.unwrap_or_default() {
            snapshot.resource_quota(quota);
        }
    }
    read_devices(client, snapshot).await?;
    for job in jobs {
        let namespace = job.metadata.namespace.as_deref().unwrap_or_default();
        read_claims(client, namespace, job, snapshot).await?;
    }
    Ok(Seen {
        snapshot: seen,
        notes,
    })
}

/// What DaemonSets will need, and what DeviceClasses offer.
async fn read_devices(client: &Client, snapshot: &mut Snapshot) -> Result<(), Unread> {
    let everything = ListParams::default();
    let sets = list(&Api::<SlimDaemonSet>::all(client.clone()), &everything).await?;
    for set in sets.unwrap_or_default() {
        snapshot.daemon_set(set);
    }
    let classes = list(&Api::<SlimDeviceClass>::all(client.clone()), &everything).await?;
    for class in classes.unwrap_or_default() {
        snapshot.device_class(class);
    }
    Ok(())
}

/// The claims that a job mounts, with their volumes and classes. Of those that are bound with
/// their first pod all volumes are candidates.
async fn read_claims(
    client: &Client,
    namespace: &str,
    job: &TrainingJob,
    snapshot: &mut Snapshot,
) -> Result<(), Unread> {
    snapshot.claims.get_or_insert_default();
    // What is wrong with the profile is said when the job is planned.
    let profile = snapshot.profiles.of(&job.spec).ok().flatten();
    let profile = profile.as_deref().map(Profile::spec);
    for wanted in claims::mounted(&job.spec, None, profile) {
        if let What::Ephemeral { asked, .. } = wanted.what {
            read_class(client, asked.storage_class_name.as_deref(), snapshot).await?;
        }
    }
    for name in claims::names(&job.spec, None, profile) {
        let api: Api<SlimClaim> = Api::namespaced(client.clone(), namespace);
        let Some(claim) = named(&api, &name).await? else {
            continue;
        };
        let (volume, class) = (&claim.spec.volume_name, &claim.spec.storage_class_name);
        if !volume.is_empty() {
            let found = named(&Api::<SlimVolume>::all(client.clone()), volume).await?;
            found.into_iter().for_each(|v| snapshot.volume(v));
        } else if class.is_some() {
            read_class(client, class.as_deref(), snapshot).await?;
        }
        snapshot.claim(claim);
    }
    Ok(())
}

/// The class of that name, or the default, and the volumes that its claims may be bound to.
async fn read_class(
    client: &Client,
    name: Option<&str>,
    snapshot: &mut Snapshot,
) -> Result<(), Unread> {
    let api = Api::<SlimStorageClass>::all(client.clone());
    let class = match name {
        Some(name) => named(&api, name).await?,
        None => {
            let all = list(&api, &ListParams::default()).await?;
            default_class(all.unwrap_or_default())
        }
    };
    if class.as_ref().is_some_and(SlimStorageClass::binds_late) {
        let all = Api::<SlimVolume>::all(client.clone());
        let volumes = list(&all, &ListParams::default()).await?;
        let volumes = volumes.unwrap_or_default().into_iter();
        volumes.for_each(|v| snapshot.volume(v));
    }
    class.into_iter().for_each(|c| snapshot.storage_class(c));
    Ok(())
}
