//! `trellis import`: what other systems use, as Trellis' objects, and what of it was not
//! carried over exactly. Reads files and the cluster's Queues; writes nothing but its output.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::cluster::{ClusterClient, ErrorHints, KubeconfigOptions, USER_AGENT, list};
use crate::object_files::{display_name, list_folder, read_text};
use kube::Api;
use kube::api::ListParams;
use trellis_api::document::{self, Document, Problem};
use trellis_api::{Quantity, TrainingQueue};
use trellis_import::{ImportNote, ImportedDocument, ImportedObject};

use super::source_object::OUR_VERSION;
use crate::output::{print, print_problems, warn};

/// Exit status where a document cannot be turned, or `--strict` finds a note.
const INCOMPLETE: u8 = 1;

/// What to turn, and how it is printed.
#[derive(clap::Args, Debug)]
pub(super) struct ImportOptions {
    /// Files with Jobs and queues of Volcano, Jobs with Kueue's label, PyTorchJobs,
    /// LatticeJobs, ClusterQueues, LocalQueues, Cohorts, ResourceFlavors and Topologies of
    /// Kueue, or folders of such files (.yaml, .yml and .json); - is standard input. They are
    /// read together: a LocalQueue says which queue the jobs of another file go to.
    #[arg(short, long = "filename", required = true, value_name = "FILE")]
    filenames: Vec<PathBuf>,
    /// How the objects are printed. What is told of them goes to standard error too.
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t = ImportFormat::Yaml)]
    output: ImportFormat,
    /// Exit status 1 where anything was not carried over exactly.
    #[arg(long)]
    strict: bool,
    /// CPU of containers that name none. Without it, a main container with GPUs is left without,
    /// for resourcesPerGPU of a RuntimeProfile or queue; a job with any other such container is not
    /// turned.
    #[arg(long, value_name = "CORES", value_parser = parse_amount)]
    cpu: Option<Quantity>,
    /// Memory of containers that name none, such as 4Gi. Without it: as for CPU.
    #[arg(long, value_name = "BYTES", value_parser = parse_amount)]
    memory: Option<Quantity>,
    /// Files with the queues that the cluster has, as `kubectl get tq -o yaml`
    /// writes them: what applying would change of them is told. Without it the cluster of the
    /// kubeconfig is asked.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["kubeconfig", "context"])]
    existing: Vec<PathBuf>,
    #[command(flatten)]
    cluster: KubeconfigOptions,
}

/// How the objects are printed.
#[derive(clap::ValueEnum, Clone, Copy, Debug)]
enum ImportFormat {
    /// Documents, with what is told of each above it.
    Yaml,
    /// One list: of each document what it was, its objects, notes and problems.
    Json,
}

fn parse_amount(text: &str) -> Result<Quantity, String> {
    let quantity = Quantity::new(text);
    quantity.amount().map_err(|error| error.to_string())?;
    Ok(quantity)
}

/// Turns, prints, and says by the exit status whether all could be turned.
pub(super) fn run(options: &ImportOptions) -> anyhow::Result<ExitCode> {
    let read = match read_documents(&options.filenames) {
        Ok(read) => read,
        Err(problems) => return Ok(print_problems(&problems)),
    };
    let (files, documents): (Vec<String>, Vec<Document>) = read.into_iter().unzip();
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
            Err(ExistingQueuesError::Unreachable(why)) => warn(&format!(
                "note: the queues of the cluster are not known, and so what applying changes of them is not told ({why}): give them with --existing FILE"
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
    for one in &imported {
        let file = files.get(one.document).map_or("", String::as_str);
        report_document(one, file);
    }
    let is_wrong = imported.iter().any(|one| !one.problems.is_empty());
    let is_noted = imported.iter().any(|one| !one.notes.is_empty());
    if is_wrong || (options.strict && is_noted) {
        return Ok(ExitCode::from(INCOMPLETE));
    }
    Ok(ExitCode::SUCCESS)
}

fn has_queue(imported: &[ImportedDocument]) -> bool {
    let mut objects = imported.iter().flat_map(|one| &one.objects);
    objects.any(|object| matches!(object, ImportedObject::Queue(_)))
}

/// The obstacle to knowing the queues of the cluster.
enum ExistingQueuesError {
    /// A file is wrong.
    InvalidFiles(Vec<Problem>),
    /// The cluster cannot be asked, in words.
    Unreachable(String),
}

/// The queues that the cluster has.
fn read_existing_queues(
    options: &ImportOptions,
) -> Result<Vec<TrainingQueue>, ExistingQueuesError> {
    if options.existing.is_empty() {
        let asked = read_cluster_queues(&options.cluster);
        return asked.map_err(|error| ExistingQueuesError::Unreachable(format!("{error:#}")));
    }
    let read = read_documents(&options.existing).map_err(ExistingQueuesError::InvalidFiles)?;
    let mut queues = Vec::new();
    let mut problems = Vec::new();
    let is_queue = |document: &Document| {
        document.kind == "TrainingQueue" && document.api_version == OUR_VERSION
    };
    for (file, document) in read.iter().filter(|(_, document)| is_queue(document)) {
        match document.decode::<TrainingQueue>() {
            Ok(queue) => queues.push(queue),
            Err(wrong) => problems.extend(wrong.into_iter().map(|p| p.with_file(file.as_str()))),
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

/// Every document with its file, or everything that keeps one from being read.
fn read_documents(paths: &[PathBuf]) -> Result<Vec<(String, Document)>, Vec<Problem>> {
    let mut found = Vec::new();
    let mut problems = Vec::new();
    for path in paths {
        match list_folder(path) {
            Ok(None) => read_file(path, &mut found, &mut problems),
            Ok(Some(files)) => files
                .iter()
                .for_each(|path| read_file(path, &mut found, &mut problems)),
            Err(message) => problems.push(Problem::for_file(message).with_file(display_name(path))),
        }
    }
    if found.is_empty() && problems.is_empty() {
        let files: Vec<_> = paths.iter().map(|path| display_name(path)).collect();
        let message = "holds no object: name a file by -f that does";
        problems.push(Problem::for_file(message).with_file(files.join(", ")));
    }
    if problems.is_empty() {
        Ok(found)
    } else {
        Err(problems)
    }
}

fn read_file(path: &Path, found: &mut Vec<(String, Document)>, problems: &mut Vec<Problem>) {
    let name = display_name(path);
    let text = match read_text(path) {
        Ok(text) => text,
        Err(error) => {
            let problem = Problem::for_file(format!("cannot be read: {error}"));
            problems.push(problem.with_file(name));
            return;
        }
    };
    for document in document::read(&text) {
        match document {
            Ok(document) => found.push((name.clone(), document)),
            Err(problem) => problems.push(problem.with_file(name.as_str())),
        }
    }
}

/// Says what keeps a document from being turned, or what was not carried over of it.
fn report_document(one: &ImportedDocument, file: &str) {
    for problem in &one.problems {
        let problem = problem.clone().with_file(file);
        warn(&format!("error: {problem}"));
    }
    // Of what is not turned at all it is no use to know what would have been left out.
    if one.problems.is_empty() {
        for note in &one.notes {
            warn(&format!("note: {}", note_to_problem(note, file)));
        }
    }
}

/// A note with its place, as problems are written.
fn note_to_problem(note: &ImportNote, file: &str) -> Problem {
    Problem {
        line: note.line,
        column: note.column,
        field: note.path.clone(),
        ..Problem::for_file(note.text()).with_file(file)
    }
}
