//! Commands that find other pods through variables or files of another system.

use trellis_api::job::{EnvVar, Framework, TaskGroup};
use trellis_api::rules;

use super::PodHints;
use super::env::reads_variable;
use crate::fields::Fields;

/// Options of torchrun that Trellis sets by `PET_*`. The command line takes precedence.
const TORCHRUN_OPTIONS: [&str; 10] = [
    "--nnodes",
    "--node_rank",
    "--node-rank",
    "--master_addr",
    "--master-addr",
    "--master_port",
    "--master-port",
    "--rdzv_endpoint",
    "--rdzv-endpoint",
    "--rdzv_backend",
];
/// Variables with the address of the process to which all processes connect.
const RENDEZVOUS_VARIABLES: [&str; 5] = [
    "MASTER_ADDR",
    "MASTER_PORT",
    "RANK",
    "WORLD_SIZE",
    "LOCAL_RANK",
];

/// Programs that set RANK and WORLD_SIZE for each of their processes.
const LAUNCHERS: [&str; 5] = [
    "torchrun",
    "torch.distributed",
    "accelerate",
    "deepspeed",
    "mpirun",
];

/// Variables of the other system. The import sets those that a command reads.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProvidedVariables(pub(crate) Vec<(String, String)>);

/// Searches the command of a container for variables. Returns those that Trellis can set, and adds
/// notes about those that it cannot set.
pub(super) fn scan_command(
    container: &Fields<'_>,
    group: &TaskGroup,
    hints: &PodHints<'_>,
) -> Vec<EnvVar> {
    let PodHints {
        framework,
        provided_variables: provided,
        index_variables: index,
        ..
    } = hints;
    let framework = *framework;
    let mut needed: Vec<EnvVar> = Vec::new();
    let texts = ["command", "args"]
        .into_iter()
        .flat_map(|key| command_texts(container, key));
    let texts: Vec<(String, String)> = texts.collect();
    let is_torchrun = texts
        .iter()
        .any(|(_, text)| text.contains("torchrun") || text.contains("torch.distributed"));
    for (path, text) in &texts {
        for (name, value) in &provided.0 {
            if reads_variable(text, name) && !needed.iter().any(|v| v.name == *name) {
                needed.push(super::env::new_variable(name, value));
            }
        }
        let notes = find_notes(text, group, framework, is_torchrun);
        let known = |name: &str| {
            index.contains(&name) || provided.0.iter().any(|(variable, _)| variable == name)
        };
        for (word, reason, instead) in notes.into_iter().filter(|(word, _, _)| !known(word)) {
            let value = serde_json::Value::String(word);
            // The text stays unchanged.
            container.log().note(path, Some(&value), reason, instead);
        }
    }
    let launches = |text: &str| LAUNCHERS.iter().any(|launcher| text.contains(launcher));
    let reads_rank =
        |text: &str| reads_variable(text, "RANK") || reads_variable(text, "WORLD_SIZE");
    let may_read_rank = framework == Framework::PyTorch && group.gpus() > 1;
    if may_read_rank
        && !texts
            .iter()
            .any(|(_, text)| launches(text) || reads_rank(text))
    {
        container.log().note(
            &container.field_path("command"),
            None,
            "does not start torchrun, and Trellis sets RANK and WORLD_SIZE only if no pod has more than one GPU",
            "start torchrun, or let the program read TRELLIS_RANK and TRELLIS_WORLD_SIZE",
        );
    }
    needed
}

fn command_texts(container: &Fields<'_>, key: &str) -> Vec<(String, String)> {
    let path = container.field_path(key);
    let list = container.value().get(key).and_then(|list| list.as_array());
    let list = list.into_iter().flatten().enumerate();
    list.filter_map(|(at, text)| Some((format!("{path}[{at}]"), text.as_str()?.to_owned())))
        .collect()
}

/// Returns the notes about one text: the word, the reason, and what the user can do instead.
fn find_notes(
    text: &str,
    group: &TaskGroup,
    framework: Framework,
    is_torchrun: bool,
) -> Vec<(String, String, String)> {
    let mut notes = Vec::new();
    let mut add_note = |word: &str, reason: &str, instead: &str| {
        notes.push((word.to_owned(), reason.to_owned(), instead.to_owned()));
    };
    if text.contains("/etc/volcano") {
        add_note(
            "/etc/volcano",
            "is a folder of Volcano's svc plugin, and does not exist in Trellis",
            "use the pod names <job>-<group>-<index>.<job>, which are those of the plugin; framework MPI has TRELLIS_HOSTFILE",
        );
    }
    for name in volcano_variables(text) {
        add_note(
            &name,
            "is a variable of Volcano's plugins, and is not set in Trellis",
            "use the pod names <job>-<group>-<index>.<job>, which are those of the plugin",
        );
    }
    let sets = |name: &str| rules::is_reserved_env(name, framework);
    for name in RENDEZVOUS_VARIABLES
        .into_iter()
        .filter(|name| reads_variable(text, name))
    {
        let own = group.env.iter().any(|variable| variable.name == name);
        let by_process = matches!(name, "RANK" | "WORLD_SIZE" | "LOCAL_RANK");
        if !sets(name) && !own {
            add_note(
                name,
                "is not set with this framework",
                "set spec.framework, or use TRELLIS_RANK and TRELLIS_WORLD_SIZE",
            );
        } else if sets(name) && by_process && group.gpus() > 1 && framework == Framework::PyTorch {
            add_note(
                name,
                "is set by torchrun for each process, and by Trellis only if no pod has more than one GPU",
                "start torchrun, or use TRELLIS_RANK and TRELLIS_WORLD_SIZE",
            );
        }
    }
    if is_torchrun && framework == Framework::PyTorch {
        let words = text.split_whitespace();
        let options = words.filter_map(|word| {
            let option = word.split('=').next()?;
            TORCHRUN_OPTIONS.contains(&option).then_some(option)
        });
        for option in options {
            add_note(
                option,
                "overrides the value that Trellis sets for torchrun by PET_*",
                "leave it out, unless you want another value",
            );
        }
    }
    notes
}

/// Returns the variables of Volcano's plugins that a text reads.
fn volcano_variables(text: &str) -> Vec<String> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    let is_volcano_variable = |word: &&str| {
        let of_svc =
            word.starts_with("VC_") && (word.ends_with("_HOSTS") || word.ends_with("_NUM"));
        of_svc || matches!(*word, "MPI_HOST" | "VC_TASK_INDEX" | "VK_TASK_INDEX")
    };
    let mut names: Vec<String> = words
        .filter(is_volcano_variable)
        .map(str::to_owned)
        .collect();
    names.sort_unstable();
    names.dedup();
    names
}
