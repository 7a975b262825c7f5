//! Variables, ports and files with which the pods of a gang find each other, one file for each
//! framework. Its rules on the job are in `trellis_api::framework`.

mod deepspeed;
mod hostfile;
mod jax;
mod mpi;
mod pytorch;
mod ray;
mod tensorflow;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ConfigMap, Container, Probe, Secret};
use trellis_api::job::{Framework, TaskGroup};
use trellis_api::{ValidatedJob, names};

use crate::Demand;
use crate::environment::TrellisVariable;
use crate::gang_facts::GangFacts;
use crate::objects::metadata;

/// Where pods find the files of [`config_maps`].
const HOSTS_PATH: &str = "/etc/trellis/hosts";
/// Name of the hostfile there: `host slots=N`, as Open MPI and DeepSpeed read it.
const HOSTFILE: &str = "hostfile";

/// Everything that a framework adds to the pods of a group.
#[derive(Default)]
pub(crate) struct Injection {
    /// Variables, all of names that [`trellis_api::rules::is_reserved_env`] reserves.
    pub variables: Vec<TrellisVariable>,
    /// Ports, each left out where the group has one of that number.
    pub ports: Vec<FrameworkPort>,
    /// Files that are mounted.
    pub files: Vec<MountedFiles>,
    /// The change to the command of the main container.
    pub command: InjectedCommand,
}

/// The change of a framework to the command of the main container.
#[derive(Default)]
pub(crate) enum InjectedCommand {
    /// The command of the group or its template runs.
    #[default]
    Unchanged,
    /// The program runs if neither the group nor its template sets a command.
    Fallback(Program),
    /// The program runs, with the command of the group or its template as its last words.
    Wrapper(Program),
}

/// A program of a framework.
#[derive(Default)]
pub(crate) struct Program {
    pub command: Vec<String>,
    /// Probe of a container that runs the program, unless its template has one.
    pub readiness_probe: Option<Probe>,
}

impl InjectedCommand {
    /// Applies itself to the main container.
    pub(crate) fn apply(self, container: &mut Container) {
        let has_command = container.command.is_some() || container.args.is_some();
        let program = match self {
            Self::Unchanged => return,
            Self::Fallback(_) if has_command => return,
            Self::Fallback(program) | Self::Wrapper(program) => program,
        };
        let mut command = program.command;
        command.extend(container.command.take().into_iter().flatten());
        container.command = Some(command);
        let probe = container.readiness_probe.take();
        container.readiness_probe = probe.or(program.readiness_probe);
    }
}

/// A port that a framework listens on.
#[derive(Clone, Copy)]
pub(crate) struct FrameworkPort {
    /// Left out where the group has another port of that name.
    pub name: &'static str,
    pub number: i32,
}

/// A child of the job, mounted.
pub(crate) enum MountedFiles {
    /// The job's ConfigMap.
    Hosts {
        name: String,
        path: &'static str,
        /// File mode, if it differs from the default.
        mode: Option<i32>,
    },
    /// The Secret with its key.
    Key { name: String, path: &'static str },
}

impl MountedFiles {
    /// The job's ConfigMap, with the file mode if it differs from the default.
    fn hosts(gang: &GangFacts<'_>, mode: Option<i32>) -> Self {
        Self::Hosts {
            name: names::hosts_config_map_name(gang.job.name()),
            path: HOSTS_PATH,
            mode,
        }
    }
}

/// The environment of one framework.
pub(crate) struct FrameworkEnvironment {
    /// The additions to the pods of a group.
    inject: fn(&GangFacts<'_>, &TaskGroup) -> Injection,
    /// True if groups outside the world get the additions, too.
    reaches_evaluators: bool,
    /// Files that the job's pods read, by name: they are in the job's ConfigMap.
    files: Option<fn(&GangFacts<'_>) -> FrameworkFiles>,
    /// The Secret with the job's key, from random bytes.
    key: Option<KeyMaker>,
}

/// Files by name.
type FrameworkFiles = Vec<(&'static str, String)>;

/// Makes a Secret from random bytes. None: the bytes are no valid key.
type KeyMaker = fn(&ValidatedJob, [u8; 66]) -> Option<Secret>;

/// Nothing: each framework names what it adds.
const NOTHING: FrameworkEnvironment = FrameworkEnvironment {
    inject: |_, _| Injection::default(),
    reaches_evaluators: false,
    files: None,
    key: None,
};

const fn environment(framework: Framework) -> &'static FrameworkEnvironment {
    match framework {
        Framework::PyTorch => &pytorch::ENVIRONMENT,
        Framework::DeepSpeed => &deepspeed::ENVIRONMENT,
        Framework::JAX => &jax::ENVIRONMENT,
        Framework::TensorFlow => &tensorflow::ENVIRONMENT,
        Framework::MPI => &mpi::ENVIRONMENT,
        Framework::Ray => &ray::ENVIRONMENT,
        Framework::None => &NOTHING,
    }
}

pub(crate) fn inject(gang: &GangFacts<'_>, group: &TaskGroup) -> Injection {
    let environment = environment(gang.job.spec().framework());
    match group.is_in_world() || environment.reaches_evaluators {
        true => (environment.inject)(gang, group),
        false => Injection::default(),
    }
}

/// True if the framework has a ConfigMap with files.
pub(crate) const fn has_config_map(framework: Framework) -> bool {
    environment(framework).files.is_some()
}

/// True if the framework has a Secret with a key.
pub(crate) const fn has_key(framework: Framework) -> bool {
    environment(framework).key.is_some()
}

/// ConfigMaps that the pods of a framework read.
pub(crate) fn config_maps(gang: &GangFacts<'_>) -> Vec<ConfigMap> {
    let Some(files) = environment(gang.job.spec().framework()).files else {
        return Vec::new();
    };
    let files = files(gang).into_iter();
    let data: BTreeMap<_, _> = files.map(|(name, text)| (name.to_owned(), text)).collect();
    let mut map = ConfigMap {
        metadata: metadata::child_metadata(gang.job),
        data: Some(data),
        ..ConfigMap::default()
    };
    map.metadata.name = Some(names::hosts_config_map_name(gang.job.name()));
    vec![map]
}

/// The Secret with the job's key, from random bytes. None if the framework needs none, or if the
/// bytes are no valid key.
pub(crate) fn key_secret(job: &ValidatedJob, random: [u8; 66]) -> Option<Secret> {
    environment(job.spec().framework())
        .key
        .and_then(|key| key(job, random))
}

/// Most bytes of all values of a ConfigMap together (`core.MaxSecretSize`, which Kubernetes
/// checks of ConfigMaps too).
const MAX_CONFIG_MAP_BYTES: usize = 1024 * 1024;

/// Why the API server would refuse the job's ConfigMap: its hostfiles are too long. Their length
/// depends on the job's namespace and the cluster's domain.
pub(crate) fn config_map_problem(gang: &GangFacts<'_>) -> Option<String> {
    let maps = config_maps(gang);
    let values = maps
        .iter()
        .flat_map(|map| &map.data)
        .flat_map(BTreeMap::values);
    let bytes = values.fold(0_usize, |sum, value| sum.saturating_add(value.len()));
    (bytes > MAX_CONFIG_MAP_BYTES).then(|| {
        let framework = gang.job.spec().framework();
        format!(
            "spec.taskGroups: the hostfiles that framework {framework:?} reads would have {bytes} \
             bytes, and a ConfigMap takes {MAX_CONFIG_MAP_BYTES}: give the job and its task groups shorter \
             names, each of which stands in every line, or have fewer pods"
        )
    })
}

/// True for the job's own ConfigMap and Secret, which no policy has to permit.
pub(crate) fn is_own_object(job: &ValidatedJob, demand: &Demand) -> bool {
    let framework = job.spec().framework();
    match demand {
        Demand::UseConfigMap(name) => {
            has_config_map(framework) && *name == names::hosts_config_map_name(job.name())
        }
        Demand::UseSecret(name) => {
            has_key(framework) && *name == names::ssh_secret_name(job.name(), job.uid())
        }
        _ => false,
    }
}
