//! Reads the cluster of the kubeconfig. It never writes.

pub(crate) use crate::cluster::KubeconfigOptions;
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use k8s_openapi::api::core::v1::ResourceQuota;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ListParams, PostParams};
use kube::{Api, Client};
use trellis_api::{PodGroup, QuotaLedger, QuotaPolicy, ResourceFlavor, Topology, TrainingJob};
use trellis_cache::policy::requester_from_user;
use trellis_compiler::HashedProfile;
use trellis_gang::observed::{
    SlimClaim, SlimDaemonSet, SlimDeviceClass, SlimNode, SlimPod, SlimStorageClass, SlimVolume,
    default_class,
};
use trellis_gang::requirements::claims;
use trellis_gang::requirements::claims::ClaimSource;
use trellis_policies::cedar::Requester;
use trellis_reads::{ApiFailure, ErrorHints, get_optional};

use super::object_reads::{get_named_jobs, list_all, read_all, read_selected};
use super::policy_facts;
use crate::files::job::namespaces_of;
use crate::plan::snapshot::{ClusterSnapshot, resource_list};

/// The purpose of reading a cluster.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ReadPurpose {
    /// To plan jobs.
    Plan,
    /// To evaluate policies about jobs.
    Policies,
}

impl ReadPurpose {
    /// Advice if the cluster cannot be used.
    const fn offline_hint(self) -> &'static str {
        match self {
            Self::Plan => {
                "to plan without a cluster, give its nodes with --nodes FILE, the output of `kubectl get nodes -o yaml`"
            }
            Self::Policies => {
                "to work without a cluster, leave --cluster out, and give jobs, policies, TrainingQueues and Namespaces with -f FILE"
            }
        }
    }

    /// Advice if a read fails.
    fn hints(self) -> ErrorHints {
        ErrorHints {
            rights: self.required_rights(),
            without_cluster: Some(self.offline_hint()),
        }
    }

    /// The user agent for the API server.
    const fn user_agent(self) -> &'static str {
        match self {
            Self::Plan => concat!("trellis-plan/", env!("CARGO_PKG_VERSION")),
            Self::Policies => concat!("trellis-policy/", env!("CARGO_PKG_VERSION")),
        }
    }

    /// The rights that the reads need.
    fn required_rights(self) -> String {
        match self {
            Self::Plan => format!(
                "a plan needs the rights to get and list {} in all namespaces: docs/plan.md has the ClusterRole; with --server, the operator reads them",
                resource_list()
            ),
            Self::Policies => "policies need the rights to get and list clusterjobpolicies, jobpolicies, trainingqueues, runtimeprofiles, trainingjobs, podgroups, priorityclasses, namespaces and services in all namespaces: docs/plan.md has the ClusterRole".to_owned(),
        }
    }
}

/// The objects that were read from a cluster.
pub(crate) struct ClusterContents {
    pub(crate) snapshot: ClusterSnapshot,
    /// Notes about facts that the user might not expect.
    pub(crate) notes: Vec<String>,
}

/// A client that reads a cluster.
pub(crate) struct ClusterReader {
    purpose: ReadPurpose,
    cluster: crate::cluster::ClusterClient,
}

impl ClusterReader {
    /// Creates a client for the configured cluster.
    /// It sends no request, so the first read shows whether the cluster answers.
    pub(crate) fn connect(
        access: &KubeconfigOptions,
        purpose: ReadPurpose,
    ) -> anyhow::Result<Self> {
        let offline = Some(purpose.offline_hint());
        let cluster =
            crate::cluster::ClusterClient::connect(access, purpose.user_agent(), offline)?;
        Ok(Self { purpose, cluster })
    }

    /// The namespace of the context.
    pub(crate) fn namespace(&self) -> &str {
        self.cluster.namespace()
    }

    /// The error of a failed read: a [`trellis_reads::ReadError`].
    fn error(&self, unread: ApiFailure) -> anyhow::Error {
        unread.into_read_error(&self.purpose.hints()).into()
    }

    /// Reads all objects that a plan of these jobs depends on.
    pub(crate) fn read(&self, jobs: &[TrainingJob]) -> anyhow::Result<ClusterContents> {
        let contents = self
            .cluster
            .block_on(read_cluster(self.cluster.client(), jobs));
        contents.map_err(|unread| self.error(unread))
    }

    /// Reads the policies and all objects that they use to decide about these jobs.
    pub(crate) fn read_facts(&self, jobs: &[TrainingJob]) -> anyhow::Result<ClusterContents> {
        let mut snapshot = ClusterSnapshot::default();
        let notes = self
            .cluster
            .block_on(policy_facts::read_facts(
                self.cluster.client(),
                jobs,
                &mut snapshot,
            ))
            .map_err(|unread| self.error(unread))?;
        Ok(ClusterContents { snapshot, notes })
    }

    /// Gets these jobs from the cluster.
    /// Jobs that do not exist there are left out.
    pub(crate) fn get_jobs(&self, jobs: &[TrainingJob]) -> anyhow::Result<Vec<TrainingJob>> {
        let found = self
            .cluster
            .block_on(get_named_jobs(self.cluster.client(), jobs));
        found.map_err(|unread| self.error(unread))
    }

    /// Asks the API server for the user's own identity, as it would stamp our writes.
    /// Returns None if the API server does not tell it; the plan works without it.
    pub(crate) fn whoami(&self) -> Option<Requester> {
        let api = Api::<SelfSubjectReview>::all(self.cluster.client().clone());
        let question = SelfSubjectReview::default();
        let params = PostParams::default();
        let answer = self.cluster.block_on(api.create(&params, &question)).ok()?;
        requester_from_user(&answer.status?.user_info?)
    }

    /// Lists all TrainingJobs.
    pub(crate) fn list_jobs(&self) -> anyhow::Result<Vec<TrainingJob>> {
        let jobs = self.cluster.block_on(list_all(self.cluster.client()));
        jobs.map_err(|unread| self.error(unread))
    }

    /// Lists all PodGroups.
    pub(crate) fn list_pod_groups(&self) -> anyhow::Result<Vec<PodGroup>> {
        let groups = self.cluster.block_on(list_all(self.cluster.client()));
        groups.map_err(|unread| self.error(unread))
    }
}

async fn read_cluster(
    client: &Client,
    jobs: &[TrainingJob],
) -> Result<ClusterContents, ApiFailure> {
    let mut snapshot = ClusterSnapshot {
        read_at: Some(Timestamp::now()),
        ..ClusterSnapshot::default()
    };
    let contents = &mut snapshot;
    read_all::<SlimNode>(client, contents).await?;
    // Only these pods use resources of a node.
    let holding = "spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed";
    let holding = ListParams::default().fields(holding);
    let pods: Api<SlimPod> = Api::all(client.clone());
    read_selected(&pods, &holding, contents).await?;
    let notes = policy_facts::read_facts(client, jobs, contents).await?;
    read_all::<QuotaPolicy>(client, contents).await?;
    read_all::<QuotaLedger>(client, contents).await?;
    // The planned jobs may exist already, and other jobs may be pending before them.
    read_all::<TrainingJob>(client, contents).await?;
    read_all::<ResourceFlavor>(client, contents).await?;
    read_all::<Topology>(client, contents).await?;
    read_all::<PodGroup>(client, contents).await?;
    for namespace in namespaces_of(jobs) {
        let quotas: Api<ResourceQuota> = Api::namespaced(client.clone(), namespace);
        read_selected(&quotas, &ListParams::default(), contents).await?;
    }
    // Pods of DaemonSets that do not exist yet will use resources of the nodes.
    read_all::<SlimDaemonSet>(client, contents).await?;
    read_all::<SlimDeviceClass>(client, contents).await?;
    for job in jobs {
        let namespace = job.metadata.namespace.as_deref().unwrap_or_default();
        read_claims(client, namespace, job, contents).await?;
    }
    Ok(ClusterContents { snapshot, notes })
}

/// Reads the claims that a job mounts, with their volumes and classes.
/// For claims that are bound with their first pod, all volumes are candidates.
async fn read_claims(
    client: &Client,
    namespace: &str,
    job: &TrainingJob,
    snapshot: &mut ClusterSnapshot,
) -> Result<(), ApiFailure> {
    snapshot.claims.get_or_insert_default();
    // The plan of the job reports errors of the profile.
    let profile = snapshot.profiles.find_for_job(&job.spec).ok().flatten();
    let profile = profile.as_deref().map(HashedProfile::spec);
    for mounted in claims::mounted_claims(&job.spec, None, profile) {
        if let ClaimSource::Ephemeral { spec: asked, .. } = mounted.claim {
            read_storage_class(client, asked.storage_class_name.as_deref(), snapshot).await?;
        }
    }
    for name in claims::claim_names(&job.spec, None, profile) {
        let api: Api<SlimClaim> = Api::namespaced(client.clone(), namespace);
        let Some(claim) = get_optional(&api, &name).await? else {
            continue;
        };
        let (volume, class) = (&claim.spec.volume_name, &claim.spec.storage_class_name);
        if !volume.is_empty() {
            let found = get_optional(&Api::<SlimVolume>::all(client.clone()), volume).await?;
            found.into_iter().for_each(|volume| snapshot.add(volume));
        } else if class.is_some() {
            read_storage_class(client, class.as_deref(), snapshot).await?;
        }
        snapshot.add(claim);
    }
    Ok(())
}

/// Reads the class of that name, or the default class.
/// It also reads the volumes that its claims may be bound to.
async fn read_storage_class(
    client: &Client,
    name: Option<&str>,
    snapshot: &mut ClusterSnapshot,
) -> Result<(), ApiFailure> {
    let api = Api::<SlimStorageClass>::all(client.clone());
    let class = match name {
        Some(name) => get_optional(&api, name).await?,
        None => default_class(list_all(client).await?),
    };
    if class
        .as_ref()
        .is_some_and(SlimStorageClass::binds_on_first_consumer)
    {
        read_all::<SlimVolume>(client, snapshot).await?;
    }
    class.into_iter().for_each(|class| snapshot.add(class));
    Ok(())
}
