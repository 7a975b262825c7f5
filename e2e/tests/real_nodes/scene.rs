//! Setup that these tests share: a control plane with four real nodes, and the operator.

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
use trellis_e2e::cluster::SCOPE;
use trellis_e2e::control_plane::{ControlPlane, apply};
use trellis_e2e::jobs::{Jobs, phase};
use trellis_e2e::namespace::TestNamespace;
use trellis_e2e::operator::{self, Operator};
use trellis_e2e::real_nodes::{self, IMAGE, RealNode, RealNodes};
use trellis_e2e::volumes;
use trellis_e2e::wait::{eventually, wait_for};

/// GPUs of each node.
pub(crate) const GPUS: u32 = 4;
/// How long a gang may take on a busy machine.
pub(crate) const TRAINED: Duration = Duration::from_secs(150);
/// How long pods may take to go that a test before has left.
const MENDED: Duration = Duration::from_secs(60);

/// Prints its devices, and ends when a file says so. It is the first process of its container,
/// which ignores SIGTERM without the trap, and would run for the whole grace period.
const WAITS: &str = "trap 'exit 143' TERM; echo has $NVIDIA_VISIBLE_DEVICES; \
    until [ -e /shared/$TRELLIS_JOB ]; do \
        [ ! -e /shared/$TRELLIS_JOB-fails-$TRELLIS_ATTEMPT ] || exit 1; sleep 0.2; \
    done; echo ended in attempt $TRELLIS_ATTEMPT";

/// Two nodes that nothing happens to, and two on which everything may.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Weather {
    Calm,
    Storm,
}

impl Weather {
    fn scope(self) -> &'static str {
        match self {
            Self::Calm => "calm",
            Self::Storm => "storm",
        }
    }

    /// One test at a time is on its nodes.
    fn turn(self) -> &'static Mutex<()> {
        static CALM: Mutex<()> = Mutex::const_new(());
        static STORM: Mutex<()> = Mutex::const_new(());
        match self {
            Self::Calm => &CALM,
            Self::Storm => &STORM,
        }
    }

    pub(crate) fn nodes(self) -> [String; 2] {
        [0, 1].map(|index| format!("{}-{index}", self.scope()))
    }
}

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| Runtime::new().unwrap());
static SCENE: OnceCell<Result<Scene, String>> = OnceCell::const_new();

pub(crate) struct Scene {
    /// Ends with the scene.
    _operator: Operator,
    pub(crate) nodes: RealNodes,
    pub(crate) control_plane: ControlPlane,
}

impl Scene {
    /// The scene, or why this machine has none.
    async fn get() -> &'static Result<Self, String> {
        let start = async || match tokio::task::spawn_blocking(real_nodes::unable)
            .await
            .unwrap()
        {
            Some(why) => Err(why),
            None => Ok(Self::start().await.unwrap()),
        };
        SCENE.get_or_init(start).await
    }

    async fn start() -> Result<Self> {
        let options = real_nodes::options(operator::options()?);
        let control_plane = ControlPlane::start(options).await?;
        operator::install(&control_plane).await?;
        let nodes: Vec<RealNode> = [Weather::Calm, Weather::Storm]
            .iter()
            .flat_map(|weather| weather.nodes().map(|name| (weather.scope(), name)))
            .map(|(scope, name)| RealNode::new(&name, GPUS).label(SCOPE, scope))
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

    /// Puts right what a test that failed has left, and waits until no pod is on the nodes.
    async fn mend(&self, weather: Weather) {
        let pods: Api<Pod> = Api::all(self.control_plane.client());
        for node in weather.nodes() {
            self.nodes.set_unhealthy(&node, &[]).unwrap();
            self.nodes.start_kubelet(&node).unwrap();
            for file in std::fs::read_dir(self.nodes.static_pods(&node)).unwrap() {
                std::fs::remove_file(file.unwrap().path()).unwrap();
            }
            let live = format!("spec.nodeName={node},status.phase!=Succeeded,status.phase!=Failed");
            let live = ListParams::default().fields(&live);
            eventually(MENDED, || async {
                self.is_well(&node, GPUS).await?;
                let live = pods.list(&live).await?.items;
                let live: Vec<String> = live.iter().map(ResourceExt::name_any).collect();
                ensure!(live.is_empty(), "{live:?} are still on {node}");
                Ok(())
            })
            .await
            .unwrap();
        }
    }

    /// Checks that a node is Ready and offers that many GPUs.
    pub(crate) async fn is_well(&self, node: &str, gpus: u32) -> Result<()> {
        let ready = self.ready(node).await?;
        ensure!(ready.status == "True", "{node}: {ready:?}");
        let offered = self.node(node).await?.allocatable.unwrap_or_default();
        let offered = offered.get("nvidia.com/gpu").map_or("0", |q| &q.0);
        ensure!(
            offered == gpus.to_string(),
            "{node} offers {offered} GPUs, not {gpus}"
        );
        Ok(())
    }

    /// The condition Ready of a node.
    pub(crate) async fn ready(&self, node: &str) -> Result<NodeCondition> {
        let all = self.node(node).await?.conditions.unwrap_or_default();
        let ready = all.into_iter().find(|c| c.type_ == "Ready");
        ready.with_context(|| format!("{node} does not say whether it is ready"))
    }

    async fn node(&self, name: &str) -> Result<NodeStatus> {
        let nodes: Api<Node> = Api::all(self.control_plane.client());
        Ok(nodes.get(name).await?.status.unwrap_or_default())
    }
}

/// How a test ends that did not fail.
pub(crate) enum End {
    Passed,
    /// The machine lacks a requirement of the test, which is named.
    Skipped(&'static str),
}

/// A test of that name, in that weather.
pub(crate) fn trial(
    name: &'static str,
    weather: Weather,
    test: impl AsyncFnOnce(&'static Scene, Place) -> End + Send + 'static,
) -> Trial {
    Trial::ignorable_test(name, move || -> Result<Completion, Failed> {
        RUNTIME.block_on(async {
            let scene = match Scene::get().await {
                Ok(scene) => scene,
                Err(why) => return Ok(Completion::ignored_with(why)),
            };
            let _turn = weather.turn().lock().await;
            scene.mend(weather).await;
            let place = Place::new(scene, weather).await;
            Ok(match test(scene, place).await {
                End::Passed => Completion::Completed,
                End::Skipped(why) => Completion::ignored_with(why),
            })
        })
    })
}

/// Asserts that a job is in its first attempt, and that nothing has been counted.
pub(crate) fn is_undisturbed(job: &TrainingJob) {
    let status = job.status.as_ref().unwrap();
    let counted = (status.attempt, status.restarts, status.disruptions);
    assert_eq!(counted, (Some(1), Some(0), Some(0)), "{status:#?}");
    assert!(status.last_failure.is_none(), "{status:#?}");
}

/// A namespace of a test's own, with jobs for the nodes of its weather.
pub(crate) struct Place {
    jobs: Jobs,
    folder: PathBuf,
    namespace: TestNamespace,
}

impl Deref for Place {
    type Target = Jobs;

    fn deref(&self) -> &Jobs {
        &self.jobs
    }
}

impl Place {
    async fn new(scene: &Scene, weather: Weather) -> Self {
        let namespace = TestNamespace::create(&scene.control_plane, weather.scope());
        let namespace = namespace.await.unwrap();
        Self {
            jobs: Jobs::new(&namespace, weather.scope()),
            folder: scene.control_plane.folder().join(namespace.name()),
            namespace,
        }
    }

    pub(crate) fn name(&self) -> &str {
        self.namespace.name()
    }

    /// The program `/app/<name>` of jobs that are made by [`Self::runs`].
    pub(crate) async fn program(&self, name: &str, text: &str) {
        let map: ConfigMap = serde_json::from_value(json!({
            "metadata": {"name": "app"}, "data": {name: text}}))
        .unwrap();
        let maps = self.api::<ConfigMap>();
        maps.create(&PostParams::default(), &map).await.unwrap();
    }

    /// A claim of a volume that all nodes reach, and the folder that it is.
    pub(crate) async fn shared_folder(&self, claim: &str) -> PathBuf {
        let folder = self.folder.join(claim);
        std::fs::create_dir_all(&folder).unwrap();
        let volume = volumes::folder(self.name(), claim, &folder);
        let claim = volumes::claim(self.name(), claim);
        self.apply(&format!("{volume}\n---\n{claim}")).await;
        folder
    }

    /// A disk of one node that is given to a claim, and the folder that it is.
    pub(crate) async fn disk(&self, name: &str, class: &str, node: &str, claim: &Value) -> PathBuf {
        let folder = self.folder.join(name);
        std::fs::create_dir_all(&folder).unwrap();
        let disk = volumes::disk(&format!("{}-{name}", self.name()), class, node);
        let mut disk: Value = serde_json::from_str(&disk).unwrap();
        disk["spec"]["local"]["path"] = json!(folder);
        disk["spec"]["claimRef"] = claim.clone();
        self.apply(&disk.to_string()).await;
        folder
    }

    /// Applies these objects.
    pub(crate) async fn apply(&self, yaml: &str) {
        let client = self.namespace.client();
        apply(&client, yaml, self.name()).await.unwrap();
    }

    /// A job of one group that runs `command`, with that program.
    pub(crate) fn runs(&self, name: &str, replicas: u32, command: &[&str]) -> Value {
        let mut job = self.job(name, replicas, 1);
        let group = &mut job["spec"]["taskGroups"][0];
        group["image"] = json!(IMAGE);
        group["command"] = json!(command);
        group["mounts"] = json!([{"configMapName": "app", "path": "/app", "readOnly": true}]);
        job
    }

    /// A gang that runs until the [folder](Self::shared_folder) `shared` has a file of its name.
    /// Its first attempt fails once there is a file `<name>-fails-1`.
    pub(crate) fn waits(&self, name: &str, replicas: u32, gpus: u32) -> Value {
        let mut job = self.runs(name, replicas, &["sh", "-c", WAITS]);
        job["spec"]["checkpoint"] = json!({"gracePeriodSeconds": 5});
        let group = &mut job["spec"]["taskGroups"][0];
        group["gpus"] = json!(gpus);
        group["resources"] = json!({"limits": {"cpu": "250m", "memory": "64Mi"}});
        group["mounts"] = json!([{"claimName": "shared", "path": "/shared"}]);
        job
    }

    /// The nodes that a job is on.
    pub(crate) async fn nodes(&self, job: &str) -> BTreeSet<String> {
        let pods = self.pods(job).await.into_iter();
        pods.filter_map(|pod| pod.spec?.node_name).collect()
    }

    /// Waits until a job is over, and is as it should be.
    pub(crate) async fn ends(&self, name: &str) -> TrainingJob {
        let api = self.api::<TrainingJob>();
        let job = wait_for(&api, name, TRAINED, |job: &TrainingJob| {
            phase(job).is_some_and(|phase| {
                matches!(
                    phase,
                    JobPhase::Complete | JobPhase::Failed | JobPhase::Refused
                )
            })
        })
        .await
        .unwrap();
        let logs = self.logs(name).await;
        assert_eq!(phase(&job), Some(JobPhase::Complete), "{logs:#?}\n{job:#?}");
        job
    }

    /// The logs of a job's pods, by pod name.
    pub(crate) async fn logs(&self, name: &str) -> Vec<(String, String)> {
        let mut logs = Vec::new();
        for pod in self.pods(name).await {
            let pod = pod.metadata.name.unwrap();
            let log = self.api::<Pod>();
            let log = log.logs(&pod, &LogParams::default()).await;
            logs.push((pod, log.unwrap_or_else(|error| error.to_string())));
        }
        logs
    }
}
