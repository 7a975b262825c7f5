//! `trellis plan`: what jobs would be compiled into, and where their pods would go.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};
use trellis_api::document::{self, Document};
use trellis_api::{Queue, QueueSpec, Reason, TrainingJob, ValidatedJob, names};
use trellis_compiler::{CompiledJob, Found, Settings, Surroundings, compile};
use trellis_policies::{Facts, authorize, selects};
use trellis_scheduler::{Engine, Placement, Time};

use crate::scheduling::gang::{self, Turn};
use crate::watch::SlimNode;

/// What to plan, and with what.
#[derive(clap::Args, Debug)]
pub(super) struct Options {
    /// Files with TrainingJobs, and Queues; - is standard input.
    #[arg(short, long = "filename", required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Files with Nodes, and Queues.
    #[arg(long, required = true, value_name = "FILE")]
    nodes: Vec<PathBuf>,
}

/// What the files hold.
#[derive(Default)]
struct Input {
    jobs: Vec<ValidatedJob>,
    queues: BTreeMap<String, QueueSpec>,
    engine: Engine,
}

/// Success: all would run. 1: one would not.
pub(super) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let mut input = Input::default();
    for file in options.nodes.iter().chain(&options.files) {
        input
            .read(file)
            .with_context(|| file.display().to_string())?;
    }
    if input.jobs.is_empty() {
        bail!("no TrainingJob is given: name a file that holds one by -f");
    }
    if input.queues.is_empty() {
        // The queue that a fresh install has.
        let all = Some(Default::default());
        let spec = QueueSpec {
            namespace_selector: all.clone(),
            default_for: all,
            ..QueueSpec::default()
        };
        input.queues.insert(names::DEFAULT_QUEUE.to_owned(), spec);
    }
    for (name, spec) in &input.queues {
        input.engine.apply_queue(gang::queue(name, spec));
    }
    let mut text = String::new();
    let mut code = ExitCode::SUCCESS;
    for job in std::mem::take(&mut input.jobs) {
        text.push_str(&format!("TrainingJob {}/{}\n", job.namespace(), job.name()));
        match input.plan(job, &mut text) {
            Ok(placement) => text.push_str(&places(&placement)),
            Err(why) => {
                code = ExitCode::FAILURE;
                text.push_str(&format!("  waits: {why}\n"));
            }
        }
    }
    super::print(&text)?;
    Ok(code)
}

impl Input {
    fn read(&mut self, file: &Path) -> anyhow::Result<()> {
        let mut text = String::new();
        if file == Path::new("-") {
            std::io::stdin().read_to_string(&mut text)?;
        } else {
            text = std::fs::read_to_string(file)?;
        }
        document::split(&text)?
            .iter()
            .try_for_each(|document| self.take(document))
    }

    fn take(&mut self, document: &Document) -> anyhow::Result<()> {
        match (document.api_version.as_str(), document.kind.as_str()) {
            ("trellis.dev/v1alpha1", "TrainingJob") => {
                let job: TrainingJob = document.valid()?;
                self.jobs.push(ValidatedJob::try_from(job)?);
            }
            ("trellis.dev/v1alpha1", "Queue") => {
                let queue: Queue = document.valid()?;
                let name = queue.metadata.name.unwrap_or_default();
                self.queues.insert(name, queue.spec);
            }
            ("v1", "Node") => {
                let node: SlimNode = document.decode()?;
                self.engine.apply_node(gang::node(&node));
            }
            (version, kind) => bail!(
                "{version:?} {kind:?} cannot be planned with: give TrainingJobs, Queues and Nodes"
            ),
        }
        Ok(())
    }

    /// Where the job's pods go, or why it does not run. A placed job keeps its room.
    fn plan(&mut self, job: ValidatedJob, text: &mut String) -> Result<Placement, String> {
        let namespace = job.namespace().to_owned();
        // The API server gives every namespace this label.
        let labels = BTreeMap::from([(names::NAMESPACE_NAME.to_owned(), namespace.clone())]);
        let class = job.spec().priority_class_name.clone();
        let suspended = job.spec().is_suspended();
        let (name, spec) = match &job.spec().queue {
            Some(name) => self.queues.get_key_value(name).ok_or_else(|| {
                format!("{}: spec.queue: queue {name:?} does not exist: create it or name another", Reason::QueueNotFound)
            })?,
            None => self.queues.iter().find(|(_, q)| selects(q.default_for.as_ref(), &labels)).ok_or_else(|| {
                format!("{}: spec.queue: none is given and no queue is the default for this namespace: name a queue", Reason::QueueNotFound)
            })?,
        };
        let found = Found {
            queue: name,
            priority: 0,
            namespace_enforces_restricted: false,
            services: &BTreeMap::new(),
        };
        let around = Surroundings::resolve(&job, found)
            .map_err(|e| format!("{}: {e}", Reason::ServiceNotFound))?;
        let compiled = compile(job, around, &Settings::default());
        text.push_str(&objects(&compiled));
        let facts = Facts {
            queue: name,
            queue_spec: spec,
            namespace: &namespace,
            namespace_labels: &labels,
            priority_class: class.as_deref(),
        };
        let job =
            authorize(compiled, &facts).map_err(|e| format!("{}: {e}", Reason::PolicyDenied))?;
        if suspended {
            return Err(format!("{}: spec.suspend is true", Reason::Suspended));
        }
        let gang = gang::gang(job.compiled(), &Turn::default(), &BTreeMap::new());
        let placement = self
            .engine
            .trial(&gang, Time::from_millis(0))
            .map_err(|c| format!("{}: {c}", c.reason.as_str()))?;
        self.engine.restore_gang(gang, placement.clone());
        Ok(placement)
    }
}

fn objects(job: &CompiledJob) -> String {
    let name = job.job().name();
    let mut out = format!("  Service {name}\n  NetworkPolicy {name}\n  PodGroup {name}\n");
    for group in job.groups() {
        let last = group.replicas().saturating_sub(1);
        out.push_str(&format!("  Pods {}..{last}\n", group.pod_name(0)));
    }
    out
}

fn places(placement: &Placement) -> String {
    let mut out = String::new();
    for group in placement.groups() {
        for (node, pods) in &group.runs {
            out.push_str(&format!("  {}: {pods} pods on {node}\n", group.group));
        }
    }
    out
}
