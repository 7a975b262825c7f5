//! `trellis import`: what other systems use, as Trellis' objects, and what of it was not
//! carried over exactly. Reads files and the cluster's Queues; writes nothing but its output.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::cluster::{AGENT, Access, Cluster, Hints, list};
use crate::files::{of_folder, shown, text};
use kube::Api;
use kube::api::ListParams;
use trellis_api::document::{self, Document, Problem};
use trellis_api::{Quantity, TrainingQueue};
use trellis_import::{Imported, Note, Object};

use super::source::OUR_VERSION;
use crate::output::{print, refuse, warn};

/// Exit status where a document cannot be turned, or `--strict` finds a note.
const LEFT: u8 = 1;

/// What to turn, and how it is printed.
#[derive(clap::Args, Debug)]
pub(super) struct Options {
    /// Files with Jobs and queues of Volcano, Jobs with Kueue's label, PyTorchJobs,
    /// LatticeJobs, ClusterQueues, LocalQueues, Cohorts, ResourceFlavors and Topologies of
    /// Kueue, or folders of such files (.yaml, .yml and .json); - is standard input. They are
    /// read together: a LocalQueue says which queue the jobs of another file go to.
    #[arg(short, long = "filename", required = true, value_name = "FILE")]
    filenames: Vec<PathBuf>,
    /// How the objects are printed. What is told of them goes to standard error too.
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t = Format::Yaml)]
    output: Format,
    /// Exit status 1 where anything was not carried over exactly.
    #[arg(long)]
    strict: bool,
    /// CPU of containers that name none. Without it, a main container with GPUs is left without,
    /// for resourcesPerGPU of a RuntimeProfile or queue; a job with any other such container is not
    /// turned.
    #[arg(long, value_name = "CORES", value_parser = amount)]
    cpu: Option<Quantity>,
    /// Memory of containers that name none, such as 4Gi. Without it: as for CPU.
    #[arg(long, value_name = "BYTES", value_parser = amount)]
    memory: Option<Quantity>,
    /// Files with the queues that the cluster has, as `kubectl get tq -o yaml`
    /// writes them: what applying would change of them is told. Without it the cluster of the
    /// kubeconfig is asked.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["kubeconfig", "context"])]
    existing: Vec<PathBuf>,
    #[command(flatten)]
    cluster: Access,
}

/// How the objects are printed.
#[derive(clap::ValueEnum, Clone, Copy, Debug)]
enum Format {
    /// Documents, with what is told of each above it.
    Yaml,
    /// One list: of each document what it was, its objects, notes and problems.
    Json,
}

fn amount(text: &str) -> Result<Quantity, String> {
    let quantity = Quantity::new(text);
    quantity.amount().map_err(|error| error.to_string())?;
    Ok(quantity)
}

/// Turns, prints, and says by the exit status whether all could be turned.
pub(super) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let read = match read(&options.filenames) {
        Ok(read) => read,
        Err(problems) => return Ok(refuse(&problems)),
    };
    let (files, documents): (Vec<String>, Vec<Document>) = read.into_iter().unzip();
    let import = |existing: Vec<TrainingQueue>| {
        let options = trellis_import::Options {
            cpu: options.cpu.clone(),
            memory: options.memory.clone(),
            existing,
        };
        trellis_import::import(&documents, &options)
    };
    let mut imported = import(Vec::new());
    if has_queue(&imported) {
        match existing(options) {
            Ok(queues) if queues.is_empty() => {}
            Ok(queues) => imported = import(queues),
            Err(Unseen::Wrong(problems)) => return Ok(refuse(&problems)),
            Err(Unseen::Cluster(why)) => warn(&format!(
                "note: the queues of the cluster are not known, and so what applying changes of them is not told ({why}): give them with --existing FILE"
            )),
        }
    }
    print(&match options.output {
        Format::Yaml => trellis_import::yaml(&imported),
        Format::Json => {
            let text = serde_json::to_string_pretty(&trellis_import::json(&imported))?;
            format!("{text}\n")
        }
    })?;
    for one in &imported {
        let file = files.get(one.document).map_or("", String::as_str);
        tell(one, file);
    }
    let is_wrong = imported.iter().any(|one| !one.problems.is_empty());
    let is_noted = imported.iter().any(|one| !one.notes.is_empty());
    if is_wrong || (options.strict && is_noted) {
        return Ok(ExitCode::from(LEFT));
    }
    Ok(ExitCode::SUCCESS)
}

fn has_queue(imported: &[Imported]) -> bool {
    let mut objects = imported.iter().flat_map(|one| &one.objects);
    objects.any(|object| matches!(object, Object::Queue(_)))
}

/// The obstacle to knowing the queues of the cluster.
enum Unseen {
    /// A file is wrong.
    Wrong(Vec<Problem>),
    /// The cluster cannot be asked, in words.
    Cluster(String),
}

/// The queues that the cluster has.
fn existing(options: &Options) -> Result<Vec<TrainingQueue>, Unseen> {
    if options.existing.is_empty() {
        let asked = of_cluster(&options.cluster);
        return asked.map_err(|error| Unseen::Cluster(format!("{error:#}")));
    }
    let read = read(&options.existing).map_err(Unseen::Wrong)?;
    let mut queues = Vec::new();
    let mut problems = Vec::new();
    let is_queue = |document: &Document| {
        document.kind == "TrainingQueue" && document.api_version == OUR_VERSION
    };
    for (file, document) in read.iter().filter(|(_, document)| is_queue(document)) {
        match document.decode::<TrainingQueue>() {
            Ok(queue) => queues.push(queue),
            Err(wrong) => problems.extend(wrong.into_iter().map(|p| p.in_file(file.as_str()))),
        }
    }
    match problems.is_empty() {
        true => Ok(queues),
        false => Err(Unseen::Wrong(problems)),
    }
}

fn of_cluster(access: &Access) -> anyhow::Result<Vec<TrainingQueue>> {
    let cluster = Cluster::connect(access, AGENT, None)?;
    let api = Api::<TrainingQueue>::all(cluster.client().clone());
    let listed = cluster.wait_for(async {
        let params = ListParams::default();
        let listing = list(&api, &params);
        match cluster.patience() {
            Some(patience) => tokio::time::timeout(patience, listing).await,
            None => Ok(listing.await),
        }
    });
    let listed = listed.map_err(|_| anyhow::anyhow!("the API server has not answered in time"))?;
    let hints = Hints {
        rights: "the ClusterRole trellis-queues has it: list trainingqueues.trellis.dev".to_owned(),
        otherwise: None,
    };
    let listed = listed.map_err(|error| error.explain(&hints))?;
    Ok(listed.unwrap_or_default())
}

/// Every document with its file, or everything that keeps one from being read.
fn read(paths: &[PathBuf]) -> Result<Vec<(String, Document)>, Vec<Problem>> {
    let mut found = Vec::new();
    let mut problems = Vec::new();
    for path in paths {
        match of_folder(path) {
            Ok(None) => file(path, &mut found, &mut problems),
            Ok(Some(files)) => files
                .iter()
                .for_each(|path| file(path, &mut found, &mut problems)),
            Err(message) => problems.push(Problem::of_file(message).in_file(shown(path))),
        }
    }
    if found.is_empty() && problems.is_empty() {
        let files: Vec<_> = paths.iter().map(|path| shown(path)).collect();
        let message = "holds no object: name a file by -f that does";
        problems.push(Problem::of_file(message).in_file(files.join(", ")));
    }
    if problems.is_empty() {
        Ok(found)
    } else {
        Err(problems)
    }
}

fn file(path: &Path, found: &mut Vec<(String, Document)>, problems: &mut Vec<Problem>) {
    let name = shown(path);
    let text = match text(path) {
        Ok(text) => text,
        Err(error) => {
            let problem = Problem::of_file(format!("cannot be read: {error}"));
            problems.push(problem.in_file(name));
            return;
        }
    };
    for document in document::read(&text) {
        match document {
            Ok(document) => found.push((name.clone(), document)),
            Err(problem) => problems.push(problem.in_file(name.as_str())),
        }
    }
}

/// Says what keeps a document from being turned, or what was not carried over of it.
fn tell(one: &Imported, file: &str) {
    for problem in &one.problems {
        let problem = problem.clone().in_file(file);
        warn(&format!("error: {problem}"));
    }
    // Of what is not turned at all it is no use to know what would have been left out.
    if one.problems.is_empty() {
        for note in &one.notes {
            warn(&format!("note: {}", place(note, file)));
        }
    }
}

/// A note with its place, as problems are written.
fn place(note: &Note, file: &str) -> Problem {
    Problem {
        line: note.line,
        column: note.column,
        field: note.path.clone(),
        ..Problem::of_file(note.text()).in_file(file)
    }
}
