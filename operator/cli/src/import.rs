//! `trellis import`: converts objects of other systems into Trellis objects.
//! It reports every field that was not carried over exactly. It reads files and the cluster's
//! queues, and writes only to its output.

use std::path::PathBuf;
use std::process::ExitCode;

use kube::Api;
use kube::api::ListParams;
use trellis_api::document::{Document, Problem};
use trellis_api::{Quantity, TrainingQueue};
use trellis_import::{ImportNote, ImportedDocument, ImportedObject};
use trellis_reads::{ErrorHints, list};

use crate::cluster::{ClusterClient, KubeconfigOptions, USER_AGENT};
use crate::files::objects::{display_name, read_objects};
use crate::files::source_object::SourceObject;
use crate::output::{print, print_problems, warn};

/// Exit status if a document cannot be converted, or `--strict` finds a note.
const INCOMPLETE: u8 = 1;

/// Options of `trellis import`.
#[derive(clap::Args, Debug)]
pub(super) struct ImportOptions {
    /// Files or folders with the objects to convert; - is standard input.
    /// Volcano: Job, Queue, HyperNode. Kueue: ClusterQueue, LocalQueue, Cohort, ResourceFlavor,
    /// Topology, and Jobs with its label. KAI: Queue, Topology, PodGroup, and Jobs with its label.
    /// Kubeflow: PyTorchJob. KubeRay: RayJob, RayCluster. Lattice: LatticeJob. HyperNodes and
    /// PodGroups become no objects. A folder is read for its .yaml, .yml and .json files. All files
    /// are read together: a LocalQueue of one file selects the queue for the jobs of another file.
    #[arg(short, long = "filename", required = true, value_name = "FILE")]
    filenames: Vec<PathBuf>,
    /// Output format. Notes also go to standard error.
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t = ImportFormat::Yaml)]
    output: ImportFormat,
    /// Exit with status 1 if anything was not carried over exactly.
    #[arg(long)]
    strict: bool,
    /// CPU for containers that request none.
    /// Without this option, a main container with GPUs stays without a CPU request, so that
    /// resourcesPerGPU of a RuntimeProfile or queue applies. A job with any other such container is
    /// not converted.
    #[arg(long, value_name = "CORES", value_parser = parse_amount)]
    cpu: Option<Quantity>,
    /// Memory for containers that request none, such as 4Gi.
    /// Without this option: as for --cpu.
    #[arg(long, value_name = "BYTES", value_parser = parse_amount)]
    memory: Option<Quantity>,
    /// Files with the cluster's existing queues, written by `kubectl get tq -o yaml`.
    /// The command reports what applying the output would change in them. Without this option, the
    /// command reads the queues from the cluster of the kubeconfig.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["kubeconfig", "context"])]
    existing: Vec<PathBuf>,
    #[command(flatten)]
    cluster: KubeconfigOptions,
}

/// Output formats.
#[derive(clap::ValueEnum, Clone, Copy, Debug)]
enum ImportFormat {
    /// YAML documents, each with its notes as comments above it.
    Yaml,
    /// One JSON list.
    /// Each entry has the source document, its objects, notes and problems.
    Json,
}

fn parse_amount(text: &str) -> Result<Quantity, String> {
    let quantity = Quantity::new(text);
    quantity.amount().map_err(|error| error.to_string())?;
    Ok(quantity)
}

/// Converts and prints the documents.
/// The exit status shows whether all were converted.
pub(super) fn run(options: &ImportOptions) -> anyhow::Result<ExitCode> {
    let sources = match read_sources(&options.filenames) {
        Ok(sources) => sources,
        Err(problems) => return Ok(print_problems(&problems)),
    };
    let (files, documents): (Vec<String>, Vec<Document>) = sources
        .into_iter()
        .map(|source| (source.file, source.document))
        .unzip();
    let import = |existing: Vec<TrainingQueue>| {
        let options = trellis_import::ConversionOptions {
            cpu: options.cpu.clone(),
            memory: options.memory.clone(),
            existing,
        };
        trellis_import::import(&documents, &options)
    };
    let mut imported = import(Vec::new());
    if has_queue(&imported) {
        match read_existing_queues(options) {
            Ok(queues) if queues.is_empty() => {}
            Ok(queues) => imported = import(queues),
            Err(ExistingQueuesError::InvalidFiles(problems)) => {
                return Ok(print_problems(&problems));
            }
            Err(ExistingQueuesError::Unreachable(reason)) => warn(&format!(
                "note: the queues of the cluster cannot be read, so changes to them are not reported ({reason}): give the queues with --existing FILE"
            )),
        }
    }
    print(&match options.output {
        ImportFormat::Yaml => trellis_import::render_yaml(&imported),
        ImportFormat::Json => {
            let text = serde_json::to_string_pretty(&trellis_import::render_json(&imported))?;
            format!("{text}\n")
        }
    })?;
    for document in &imported {
        let file = files.get(document.document).map_or("", String::as_str);
        report_document(document, file);
    }
    let is_wrong = imported
        .iter()
        .any(|document| !document.problems.is_empty());
    let is_noted = imported.iter().any(|document| !document.notes.is_empty());
    if is_wrong || (options.strict && is_noted) {
        return Ok(ExitCode::from(INCOMPLETE));
    }
    Ok(ExitCode::SUCCESS)
}

fn has_queue(imported: &[ImportedDocument]) -> bool {
    let mut objects = imported.iter().flat_map(|one| &one.objects);
    objects.any(|object| matches!(object, ImportedObject::Queue(_)))
}

/// Reason why the queues of the cluster are unknown.
enum ExistingQueuesError {
    /// A file is invalid.
    InvalidFiles(Vec<Problem>),
    /// The cluster cannot be reached, with the message.
    Unreachable(String),
}

/// Reads the queues of the cluster.
fn read_existing_queues(
    options: &ImportOptions,
) -> Result<Vec<TrainingQueue>, ExistingQueuesError> {
    if options.existing.is_empty() {
        let queues_of_cluster = read_cluster_queues(&options.cluster);
        return queues_of_cluster
            .map_err(|error| ExistingQueuesError::Unreachable(format!("{error:#}")));
    }
    let sources = read_sources(&options.existing).map_err(ExistingQueuesError::InvalidFiles)?;
    let mut queues = Vec::new();
    let mut problems = Vec::new();
    for source in sources
        .iter()
        .filter(|source| source.is_kind("TrainingQueue"))
    {
        match source.document.decode::<TrainingQueue>() {
            Ok(queue) => queues.push(queue),
            Err(wrong) => problems.extend(source.to_problems(wrong)),
        }
    }
    match problems.is_empty() {
        true => Ok(queues),
        false => Err(ExistingQueuesError::InvalidFiles(problems)),
    }
}

fn read_cluster_queues(access: &KubeconfigOptions) -> anyhow::Result<Vec<TrainingQueue>> {
    let cluster = ClusterClient::connect(access, USER_AGENT, None)?;
    let api = Api::<TrainingQueue>::all(cluster.client().clone());
    let listed = cluster.block_on(async {
        let params = ListParams::default();
        let listing = list(&api, &params);
        match cluster.scheduler_timeout() {
            Some(patience) => tokio::time::timeout(patience, listing).await,
            None => Ok(listing.await),
        }
    });
    let listed = listed.map_err(|_| anyhow::anyhow!("the API server has not answered in time"))?;
    let hints = ErrorHints {
        rights: "the ClusterRole trellis-queues has it: list trainingqueues.trellis.dev".to_owned(),
        without_cluster: None,
    };
    let listed = listed.map_err(|error| error.explain(&hints))?;
    Ok(listed.unwrap_or_default())
}

/// Reads every object, or returns every problem.
fn read_sources(paths: &[PathBuf]) -> Result<Vec<SourceObject>, Vec<Problem>> {
    let mut sources = Vec::new();
    let mut problems = Vec::new();
    for found in paths.iter().flat_map(|path| read_objects(path)) {
        match found {
            Ok(source) => sources.push(source),
            Err(problem) => problems.push(problem),
        }
    }
    if sources.is_empty() && problems.is_empty() {
        let files: Vec<_> = paths.iter().map(|path| display_name(path)).collect();
        let message = "contains no object: name a file with objects by -f";
        problems.push(Problem::for_file(message).with_file(files.join(", ")));
    }
    if problems.is_empty() {
        Ok(sources)
    } else {
        Err(problems)
    }
}

/// Reports why a document cannot be converted, or what was not carried over.
fn report_document(document: &ImportedDocument, file: &str) {
    for problem in &document.problems {
        let problem = problem.clone().with_file(file);
        warn(&format!("error: {problem}"));
    }
    // Notes are useless for a document that is not converted.
    if document.problems.is_empty() {
        for note in &document.notes {
            warn(&format!("note: {}", note_to_problem(note, file)));
        }
    }
}

/// Converts a note with its position into a problem, so that both have one format.
fn note_to_problem(note: &ImportNote, file: &str) -> Problem {
    Problem {
        line: note.line,
        column: note.column,
        field: note.path.clone(),
        ..Problem::for_file(note.text()).with_file(file)
    }
}
