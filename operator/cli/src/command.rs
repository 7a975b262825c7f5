//! The commands, and which function runs each.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::exit::Exit;
use crate::output::{print, warn};
use crate::suspend::{self, SuspendTarget};
use crate::{
    cancel, completions, crds, explain, import, logs, nodes, plan, policy, queue, replay, simulate,
    status, submit, top,
};

/// Plan, submit, watch and explain TrainingJobs: gangs of GPU pods that run all together or not at
/// all.
#[derive(Parser, Debug)]
#[command(name = "trellis", bin_name = program_name(), version)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Print the CustomResourceDefinitions, for `kubectl apply --server-side -f -`.
    Crds(crds::CrdsOptions),
    /// Show what jobs would be compiled into, and where they would go or why they
    /// would wait. Reads the current cluster, or files; writes nothing. Exit status:
    /// 0 all would run, 1 one would not, 2 invalid input or no cluster.
    Plan(plan::PlanOptions),
    /// For those who write policies: test, try, compare and format them.
    Policy(policy::PolicyOptions),
    /// Let jobs come, in virtual time: of files, recorded, or made up; say what the
    /// engine makes of them. Exit status: 0 all was as expected, 1 something was
    /// not, 2 invalid input.
    Simulate(simulate::SimulateOptions),
    /// Turn what Volcano, Kueue, Kubeflow and Lattice use into Trellis' objects, and say of
    /// every field what was not carried over. Reads files; writes nothing. Exit status: 0
    /// all is turned, 1 a document cannot be (--strict: or something is to be said of one),
    /// 2 invalid input.
    Import(import::ImportOptions),
    /// Decide again what a running scheduler had to decide when it wrote a snapshot:
    /// the decisions, and why those wait that do. The same every time.
    Replay(replay::ReplayOptions),
    /// Show all that waits and all that runs, queue by queue: position, who, GPUs, state, since
    /// when, when it starts or ends, and why it waits. Exit status: 0 shown, 1 there is no such
    /// queue, 2 no cluster, or none that tells.
    Queue(queue::QueueOptions),
    /// Show what of each node is free, who holds the rest, for whom it is reserved, and what is
    /// wrong with it. Exit status: 0 shown, 1 there is no such node, 2 no cluster, or none that
    /// tells.
    Nodes(nodes::NodesOptions),
    /// Say why a job waits: what it lacks, what each node is to it, who would make room, when it
    /// starts, and the smallest change that would help. Exit status: 0 said, 1 there is no such
    /// job, 2 no cluster.
    Explain(explain::ExplainOptions),
    /// Show one job in one screen: phase and reason, attempts, times, its objects, its pods by
    /// node, its last events. Exit status: 0 shown, 1 there is no such job, 2 no cluster.
    Status(status::StatusOptions),
    /// Print what the pods of a job write, by rank, group and index; with -f over restarts. Exit
    /// status: 0 printed, 1 there is no such job or no log, 2 no cluster.
    Logs(logs::LogsOptions),
    /// Show what jobs make of the GPUs that they hold, those that waste most first, as NVIDIA's
    /// DCGM exporter tells it. Exit status: 0 shown, 1 there is no such job, 2 no cluster, or no
    /// exporter.
    Top(top::TopOptions),
    /// Create jobs, and wait for them. Exit status: 0 done, 1 a job was not taken or did not end
    /// well, 2 invalid input or no cluster, 124 the time is over.
    Submit(submit::SubmitOptions),
    /// Have jobs give their places back; they keep their place in history and can be resumed.
    /// Exit status: 0 done, 1 a job is not there or has ended, 2 no cluster, 124 the time is over.
    Suspend(suspend::SuspendOptions),
    /// Have suspended jobs wait for a place again. Exit status: as of suspend.
    Resume(suspend::SuspendOptions),
    /// End jobs and delete them; their pods have their grace. Exit status: as of suspend.
    Cancel(cancel::CancelOptions),
    /// Print what completes commands and options in a shell.
    Completions(completions::CompletionsOptions),
    /// Write man pages, one a command, into a folder.
    Man(completions::ManOptions),
    /// Print the version.
    Version,
}

/// Runs a command. Errors go to standard error, with what to do about them.
#[must_use]
pub fn run(cli: Cli) -> ExitCode {
    let result = match cli.command {
        Command::Plan(options) => return to_exit_code(plan::run(&options)),
        Command::Policy(options) => return to_exit_code(policy::run(&options)),
        Command::Simulate(options) => return to_exit_code(simulate::run(&options)),
        Command::Import(options) => return to_exit_code(import::run(&options)),
        Command::Replay(options) => return to_exit_code(replay::run(&options)),
        Command::Queue(options) => return to_exit_code(queue::run(&options)),
        Command::Nodes(options) => return to_exit_code(nodes::run(&options)),
        Command::Explain(options) => return to_exit_code(explain::run(&options)),
        Command::Status(options) => return to_exit_code(status::run(&options)),
        Command::Logs(options) => return to_exit_code(logs::run(&options)),
        Command::Top(options) => return to_exit_code(top::run(&options)),
        Command::Submit(options) => return to_exit_code(submit::run(&options)),
        Command::Suspend(options) => {
            return to_exit_code(suspend::run(&options, SuspendTarget::Suspended));
        }
        Command::Resume(options) => {
            return to_exit_code(suspend::run(&options, SuspendTarget::Resumed));
        }
        Command::Cancel(options) => return to_exit_code(cancel::run(&options)),
        Command::Completions(options) => completions::print_completions(&options),
        Command::Man(options) => completions::write_man_pages(&options),
        Command::Crds(options) => crds::run(&options),
        Command::Version => print(concat!("trellis ", env!("CARGO_PKG_VERSION"), "\n")),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            warn(&format!("error: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// The exit status of a command that has its own.
fn to_exit_code(result: anyhow::Result<ExitCode>) -> ExitCode {
    result.unwrap_or_else(|error| {
        warn(&format!("error: {error:#}"));
        Exit::Invalid.into()
    })
}

/// The words that start us: kubectl runs a program `kubectl-trellis` of the PATH
/// as `kubectl trellis`.
fn program_name() -> &'static str {
    let program = std::env::args_os().next().unwrap_or_default();
    let name = std::path::Path::new(&program).file_stem();
    if name.is_some_and(|n| n == "kubectl-trellis") {
        "kubectl trellis"
    } else {
        "trellis"
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::CommandFactory as _;

    use super::*;

    /// The short flags of all commands, as in docs/command-line.md. kubectl too has `-f` twice.
    const SHORT_FLAGS: &[(char, &str)] = &[
        ('A', "all-namespaces"),
        ('V', "version"),
        ('c', "container"),
        ('f', "filename"),
        ('f', "follow"),
        ('h', "help"),
        ('l', "selector"),
        ('n', "namespace"),
        ('o', "output"),
        ('p', "previous"),
        ('w', "watch"),
    ];

    #[test]
    fn command_line_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn short_flag_means_the_same_in_every_command() {
        let mut root = Cli::command();
        root.build();
        let mut commands = vec![&root];
        let mut used = BTreeSet::new();
        while let Some(command) = commands.pop() {
            commands.extend(command.get_subcommands());
            let name = command.get_name();
            for flag in command.get_arguments() {
                let Some(long) = flag.get_long() else {
                    assert_eq!(flag.get_short(), None, "{name} {}", flag.get_id());
                    continue;
                };
                let short = flag.get_short();
                let listed = SHORT_FLAGS.iter().find(|(_, of)| *of == long);
                assert_eq!(short, listed.map(|(of, _)| *of), "{name} --{long}");
                let hidden = flag.get_all_short_aliases().unwrap_or_default();
                assert!(hidden.is_empty(), "{name} --{long}: {hidden:?}");
                used.extend(short.map(|short| (short, long)));
                match long {
                    "follow" => assert_eq!(name, "logs"),
                    "filename" => assert_ne!(name, "logs"),
                    _ => {}
                }
            }
        }
        assert!(used.iter().eq(SHORT_FLAGS), "{used:?}");
    }
}
