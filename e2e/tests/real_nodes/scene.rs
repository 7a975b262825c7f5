//! What all of them share: a control plane with four real nodes, and the operator.

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Duration;

use anyhow::Result;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{LogParams, PostParams};
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
use trellis_e2e::wait::wait_for;

/// GPUs of each node.
pub(crate) const GPUS: u32 = 4;
/// How long a gang may take, on a machine that does something else beside it.
pub(crate) const TRAINED: Duration = Duration::from_secs(150);

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
}

/// How a test ends that did not fail.
pub(crate) enum End {
    Passed,
    /// The machine lacks something that it needs: what.
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
            let place = Place::new(scene, weather).await;
            Ok(match test(scene, place).await {
                End::Passed => Completion::Completed,
                End::Skipped(why) => Completion::ignored_with(why),
            })
        })
    })
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
        let client = self.namespace.client();
        apply(&client, &format!("{volume}\n---\n{claim}"), self.name())
            .await
            .unwrap();
        folder
    }

    /// A job of one group that runs `command`, with that program.
    pub(crate) fn runs(&self, name: &str, replicas: u32, command: &[&str]) -> Value {
        let mut job = self.job(name, replicas, 1);
        let group = &mut job["spec"]["taskGroups"][0];
        group["image"] = json!(IMAGE);
        group["command"] = json!(command);
        group["mounts"] = json!([{"configMap": "app", "path": "/app", "readOnly": true}]);
        job
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

    /// What the pods of a job have printed, by their names.
    pub(crate) async fn logs(&self, name: &str) -> Vec<(String, String)> {
        let mut logs = Vec::new();
        for pod in self.pods(name).await {
            let pod = pod.metadata.name.unwrap();
            let log = self.api::<k8s_openapi::api::core::v1::Pod>();
            let log = log.logs(&pod, &LogParams::default()).await;
            logs.push((pod, log.unwrap_or_else(|error| error.to_string())));
        }
        logs
    }
}
