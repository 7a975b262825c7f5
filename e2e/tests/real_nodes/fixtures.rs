//! Shared setup of these tests: a control plane with four real nodes, and the operator.

use std::collections::BTreeSet;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use k8s_openapi::api::core::v1::{ConfigMap, Node, NodeCondition, NodeStatus, Pod};
use kube::api::{ListParams, LogParams, PostParams};
use kube::{Api, ResourceExt};
use libtest_mimic::{Completion, Failed, Trial};
use serde_json::{Value, json};
use tokio::runtime::Runtime;
use tokio::sync::{Mutex, OnceCell};
use trellis_api::TrainingJob;
use trellis_api::job::JobPhase;
use trellis_e2e::cluster::SCOPE_LABEL;
use trellis_e2e::control_plane::{ControlPlane, apply};
use trellis_e2e::operator::{self, Operator};
use trellis_e2e::real_nodes::{self, IMAGE_NAME, RealNode, RealNodes};
use trellis_e2e::site::jobs::{TestJobs, phase};
use trellis_e2e::site::namespace::TestNamespace;
use trellis_e2e::volumes;
use trellis_e2e::wait::{eventually, wait_for};

/// GPUs of each node.
pub(crate) const GPUS_PER_NODE: u32 = 4;
/// Longest time of a gang on a busy machine.
pub(crate) const TRAINING_TIMEOUT: Duration = Duration::from_secs(150);
/// Longest time until the pods of an earlier test are gone.
const CLEANUP_TIMEOUT: Duration = Duration::from_secs(60);

/// A program that prints its devices, and ends when a file exists. The first process of a container
/// ignores SIGTERM without the trap, and would run for the whole grace period.
const WAIT_SCRIPT: &str = "trap 'exit 143' TERM; echo has $NVIDIA_VISIBLE_DEVICES; \
    until [ -e /shared/$TRELLIS_JOB ]; do \
        [ ! -e /shared/$TRELLIS_JOB-fails-$TRELLIS_ATTEMPT ] || exit 1; sleep 0.2; \
    done; echo ended in attempt $TRELLIS_ATTEMPT";

/// The kind of nodes: two nodes without faults, and two nodes for tests with faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NodePair {
    Undisturbed,
    Faulty,
}

impl NodePair {
    fn scope(self) -> &'static str {
        match self {
            Self::Undisturbed => "calm",
            Self::Faulty => "storm",
        }
    }

    /// Lets only one test at a time use these nodes.
    fn lock(self) -> &'static Mutex<()> {
        static UNDISTURBED_LOCK: Mutex<()> = Mutex::const_new(());
        static FAULTY_LOCK: Mutex<()> = Mutex::const_new(());
        match self {
            Self::Undisturbed => &UNDISTURBED_LOCK,
            Self::Faulty => &FAULTY_LOCK,
        }
    }

    pub(crate) fn node_names(self) -> [String; 2] {
        [0, 1].map(|index| format!("{}-{index}", self.scope()))
    }
}

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().unwrap());
static FIXTURE: OnceCell<Result<RealNodesFixture, String>> = OnceCell::const_new();

pub(crate) struct RealNodesFixture {
    /// The operator ends with the scene.
    _operator: Operator,
    pub(crate) nodes: RealNodes,
    pub(crate) control_plane: ControlPlane,
}

impl RealNodesFixture {
    /// Returns the scene, or why this machine cannot run it.
    async fn shared() -> &'static Result<Self, String> {
        let start = async || match tokio::task::spawn_blocking(real_nodes::unavailable_reason)
            .await
            .unwrap()
        {
            Some(reason) => Err(reason),
            None => Ok(Self::start().await.unwrap()),
        };
        FIXTURE.get_or_init(start).await
    }

    async fn start() -> Result<Self> {
        let options = real_nodes::with_real_nodes(operator::control_plane_options()?);
        let control_plane = ControlPlane::start(options).await?;
        operator::install_chart_objects(&control_plane).await?;
        let nodes: Vec<RealNode> = [NodePair::Undisturbed, NodePair::Faulty]
            .iter()
            .flat_map(|weather| weather.node_names().map(|name| (weather.scope(), name)))
            .map(|(scope, name)| RealNode::new(&name, GPUS_PER_NODE).label(SCOPE_LABEL, scope))
            .collect();
        let nodes = RealNodes::start(&control_plane, &nodes).await?;
        let program = Path::new(env!("CARGO_BIN_EXE_trellis-under-test"));
        let operator = Operator::start(&control_plane, program).await?;
        Ok(Self {
            _operator: operator,
            nodes,
            control_plane,
        })
    }

    /// Cleans up after a failed test, and waits until the nodes have no pods.
    async fn clean_up(&self, weather: NodePair) {
        let pods: Api<Pod> = Api::all(self.control_plane.client());
        for node in weather.node_names() {
            self.nodes.set_unhealthy_gpus(&node, &[]).unwrap();
            self.nodes.start_kubelet(&node).unwrap();
            for file in std::fs::read_dir(self.nodes.static_pods_folder(&node)).unwrap() {
                std::fs::remove_file(file.unwrap().path()).unwrap();
            }
            let live = format!("spec.nodeName={node},status.phase!=Succeeded,status.phase!=Failed");
            let live = ListParams::default().fields(&live);
            eventually(CLEANUP_TIMEOUT, || async {
                self.check_node_ready(&node, GPUS_PER_NODE).await?;
                let live = pods.list(&live).await?.items;
                let live: Vec<String> = live.iter().map(ResourceExt::name_any).collect();
                ensure!(live.is_empty(), "the pods {live:?} are still on {node}");
                Ok(())
            })
            .await
            .unwrap();
        }
    }

    /// Checks that a node is Ready and offers this number of GPUs.
    pub(crate) async fn check_node_ready(&self, node: &str, gpus: u32) -> Result<()> {
        let ready = self.ready_condition(node).await?;
        ensure!(ready.status == "True", "{node}: {ready:?}");
        let offered = self
            .node_status(node)
            .await?
            .allocatable
            .unwrap_or_default();
        let offered = offered.get("nvidia.com/gpu").map_or("0", |q| &q.0);
        ensure!(
            offered == gpus.to_string(),
            "{node} offers {offered} GPUs, not {gpus}"
        );
        Ok(())
    }

    /// Returns the condition Ready of a node.
    pub(crate) async fn ready_condition(&self, node: &str) -> Result<NodeCondition> {
        let all = self.node_status(node).await?.conditions.unwrap_or_default();
        let ready = all.into_iter().find(|c| c.type_ == "Ready");
        ready.with_context(|| format!("{node} does not say whether it is ready"))
    }

    async fn node_status(&self, name: &str) -> Result<NodeStatus> {
        let nodes: Api<Node> = Api::all(self.control_plane.client());
        Ok(nodes.get(name).await?.status.unwrap_or_default())
    }
}

/// The result of a test that did not fail.
pub(crate) enum TrialOutcome {
    Passed,
    /// The machine lacks this requirement of the test.
    Skipped(&'static str),
}

/// Returns a test with this name on nodes of this kind.
pub(crate) fn trial(
    name: &'static str,
    weather: NodePair,
    test: impl AsyncFnOnce(&'static RealNodesFixture, TrialNamespace) -> TrialOutcome + Send + 'static,
) -> Trial {
    Trial::ignorable_test(name, move || -> Result<Completion, Failed> {
        RUNTIME.block_on(async {
            let scene = match RealNodesFixture::shared().await {
                Ok(scene) => scene,
                Err(reason) => return Ok(Completion::ignored_with(reason)),
            };
            let _turn = weather.lock().lock().await;
            scene.clean_up(weather).await;
            let place = TrialNamespace::new(scene, weather).await;
            Ok(match test(scene, place).await {
                TrialOutcome::Passed => Completion::Completed,
                TrialOutcome::Skipped(reason) => Completion::ignored_with(reason),
            })
        })
    })
}

/// Asserts that a job is in its first attempt and has no counted failures.
pub(crate) fn assert_undisturbed(job: &TrainingJob) {
    let status = job.status.as_ref().unwrap();
    let counted = (status.attempt, status.restarts, status.disruptions);
    assert_eq!(counted, (Some(1), Some(0), Some(0)), "{status:#?}");
    assert!(status.last_failure.is_none(), "{status:#?}");
}

/// A namespace for one test, with jobs for its kind of nodes.
pub(crate) struct TrialNamespace {
    jobs: TestJobs,
    folder: PathBuf,
    namespace: TestNamespace,
}

impl Deref for TrialNamespace {
    type Target = TestJobs;

    fn deref(&self) -> &TestJobs {
        &self.jobs
    }
}

impl TrialNamespace {
    async fn new(scene: &RealNodesFixture, weather: NodePair) -> Self {
        let namespace = TestNamespace::create(&scene.control_plane, weather.scope());
        let namespace = namespace.await.unwrap();
        Self {
            jobs: TestJobs::new(&namespace, weather.scope()),
            folder: scene.control_plane.folder().join(namespace.name()),
            namespace,
        }
    }

    pub(crate) fn name(&self) -> &str {
        self.namespace.name()
    }

    /// Creates the program `/app/<name>` for jobs of [`Self::job_running`].
    pub(crate) async fn create_program(&self, name: &str, text: &str) {
        let map: ConfigMap = serde_json::from_value(json!({
            "metadata": {"name": "app"}, "data": {name: text}}))
        .unwrap();
        let maps = self.api::<ConfigMap>();
        maps.create(&PostParams::default(), &map).await.unwrap();
    }

    /// Creates a claim with a volume that all nodes reach. Returns the claim and the folder of the
    /// volume.
    pub(crate) async fn create_shared_volume(&self, claim: &str) -> PathBuf {
        let folder = self.folder.join(claim);
        std::fs::create_dir_all(&folder).unwrap();
        let volume = volumes::folder_volume_yaml(self.name(), claim, &folder);
        let claim = volumes::claim_yaml(self.name(), claim);
        self.apply_yaml(&format!("{volume}\n---\n{claim}")).await;
        folder
    }

    /// Creates a volume of one node for a claim. Returns the folder of the volume.
    pub(crate) async fn create_disk(
        &self,
        name: &str,
        class: &str,
        node: &str,
        claim: &Value,
    ) -> PathBuf {
        let folder = self.folder.join(name);
        std::fs::create_dir_all(&folder).unwrap();
        let disk = volumes::disk_yaml(&format!("{}-{name}", self.name()), class, node);
        let mut disk: Value = serde_json::from_str(&disk).unwrap();
        disk["spec"]["local"]["path"] = json!(folder);
        disk["spec"]["claimRef"] = claim.clone();
        self.apply_yaml(&disk.to_string()).await;
        folder
    }

    /// Applies these objects.
    pub(crate) async fn apply_yaml(&self, yaml: &str) {
        let client = self.namespace.client();
        apply(&client, yaml, self.name()).await.unwrap();
    }

    /// Returns a job of one group that runs `command` with a program.
    pub(crate) fn job_running(&self, name: &str, replicas: u32, command: &[&str]) -> Value {
        let mut job = self.job(name, replicas, 1);
        let group = &mut job["spec"]["taskGroups"][0];
        group["image"] = json!(IMAGE_NAME);
        group["command"] = json!(command);
        group["mounts"] = json!([{"configMapName": "app", "path": "/app", "readOnly": true}]);
        job
    }

    /// Returns a gang that runs until the [folder](Self::shared_folder) `shared` contains a file
    /// with its name. Its first attempt fails when a file `<name>-fails-1` exists.
    pub(crate) fn gang_waiting_for_file(&self, name: &str, replicas: u32, gpus: u32) -> Value {
        let mut job = self.job_running(name, replicas, &["sh", "-c", WAIT_SCRIPT]);
        job["spec"]["checkpoint"] = json!({"gracePeriodSeconds": 5});
        let group = &mut job["spec"]["taskGroups"][0];
        group["gpus"] = json!(gpus);
        group["resources"] = json!({"limits": {"cpu": "250m", "memory": "64Mi"}});
        group["mounts"] = json!([{"claimName": "shared", "path": "/shared"}]);
        job
    }

    /// Returns the nodes of a job.
    pub(crate) async fn nodes_of_job(&self, job: &str) -> BTreeSet<String> {
        let pods = self.list_pods(job).await.into_iter();
        pods.filter_map(|pod| pod.spec?.node_name).collect()
    }

    /// Waits until a job has ended in the expected phase.
    pub(crate) async fn wait_until_complete(&self, name: &str) -> TrainingJob {
        let api = self.api::<TrainingJob>();
        let ended = wait_for(&api, name, TRAINING_TIMEOUT, |job: &TrainingJob| {
            phase(job).is_some_and(|phase| {
                matches!(
                    phase,
                    JobPhase::Complete | JobPhase::Failed | JobPhase::Refused
                )
            })
        })
        .await;
        let logs = self.pod_logs(name).await;
        let job = ended.unwrap_or_else(|error| panic!("{logs:#?}\n{error:#}"));
        assert_eq!(phase(&job), Some(JobPhase::Complete), "{logs:#?}\n{job:#?}");
        job
    }

    /// Returns the logs of a job's pods by pod name.
    pub(crate) async fn pod_logs(&self, name: &str) -> Vec<(String, String)> {
        let mut logs = Vec::new();
        for pod in self.list_pods(name).await {
            let pod = pod.metadata.name.unwrap();
            let log = self.api::<Pod>();
            let log = log.logs(&pod, &LogParams::default()).await;
            logs.push((pod, log.unwrap_or_else(|error| error.to_string())));
        }
        logs
    }
}
