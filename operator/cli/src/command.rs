//! The subcommands, and the function that runs each of them.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::exit::Exit;
use crate::output::{print, warn};
use crate::suspend::{self, SuspendTarget};
use crate::{
    cancel, completions, crds, dashboard, explain, history, import, logs, nodes, plan, policy,
    queue, replay, simulate, status, submit, top, verify, what_if,
};

/// Plan, submit, watch and explain TrainingJobs.
/// A TrainingJob is a gang of GPU pods that run all together or not at all.
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
    /// Show the objects that jobs compile into, and their nodes or why they would wait.
    /// Reads the current cluster or files; writes nothing. Exit status: 0 all would run, 1 one
    /// would not, 2 invalid input or no cluster.
    Plan(plan::PlanOptions),
    /// Test, evaluate, compare and format policies.
    Policy(policy::PolicyOptions),
    /// Simulate jobs in virtual time.
    /// The jobs come from files, from traces or from a generator; the output shows the engine's
    /// decisions. Exit status: 0 all expectations were met, 1 one was not, 2 invalid input.
    Simulate(simulate::SimulateOptions),
    /// Convert objects of Volcano, Kueue, KAI, Kubeflow, KubeRay and Lattice into Trellis objects.
    /// Reports for every field what was not carried over. Reads files; writes nothing. Exit status:
    /// 0 all documents are converted, 1 a document cannot be converted (--strict: or a note is
    /// reported), 2 invalid input.
    Import(import::ImportOptions),
    /// Repeat the decisions of a running scheduler from a snapshot that it wrote.
    /// Prints the decisions and the reasons of the pending jobs. The same snapshot always gives the
    /// same output.
    Replay(replay::ReplayOptions),
    /// Show all pending and running jobs, queue by queue.
    /// The columns are position, requester, GPUs, state, since when, when the job starts or ends,
    /// and why it waits. Exit status: 0 shown, 1 the queue does not exist, 2 no cluster, or no
    /// answer from the scheduler.
    Queue(queue::QueueOptions),
    /// Show the free capacity, holders, reservations and problems of each node.
    /// Exit status: 0 shown, 1 the node does not exist, 2 no cluster, or no answer from the
    /// scheduler.
    Nodes(nodes::NodesOptions),
    /// Show the attempts of jobs that have ended in the last 24 hours, like Slurm's sacct.
    /// The columns are requester, GPUs, when the attempt ended, for how long it held its place and
    /// ran, how it ended and why. Exit status: 0 shown, 1 the job has none, 2 no cluster, or no answer
    /// from the scheduler.
    History(history::HistoryOptions),
    /// Serve the web page: the cluster, its queues and jobs, and why jobs wait.
    /// Runs on this machine with your rights and opens the browser, or in the cluster behind a proxy.
    /// Exit status: 0 ended by Ctrl-C, 2 no cluster is configured, or the port is taken.
    Dashboard(dashboard::DashboardOptions),
    /// Show which jobs would start earlier or later after changes of the cluster.
    /// The scheduler looks ahead with and without more nodes, another quota, another priority or
    /// another job; nothing changes. It assumes that no other job arrives, that running jobs end when
    /// expected, and that policies allow the jobs. Exit status: 0 shown, 2 a change cannot be made, no
    /// cluster, or no answer from the scheduler.
    WhatIf(Box<what_if::WhatIfOptions>),
    /// Explain why a job waits.
    /// The answer tells what the job lacks, whether each node fits, which jobs would be preempted,
    /// when the job starts, and the smallest change that would help. Exit status: 0 explained, 1
    /// the job does not exist, 2 no cluster.
    Explain(explain::ExplainOptions),
    /// Show one job on one screen.
    /// The screen has its phase and reason, attempts, times, objects, pods by node and last events.
    /// Exit status: 0 shown, 1 the job does not exist, 2 no cluster.
    Status(status::StatusOptions),
    /// Print the logs of a job's pods, by rank, group and index.
    /// With -f, the output continues across restarts. Exit status: 0 printed, 1 the job or the log
    /// does not exist, 2 no cluster.
    Logs(logs::LogsOptions),
    /// Show how jobs use the GPUs that they hold, the most wasteful jobs first.
    /// The numbers come from NVIDIA's DCGM exporter. Exit status: 0 shown, 1 the job does not
    /// exist, 2 no cluster, or no exporter.
    Top(top::TopOptions),
    /// Create jobs, and wait for them.
    /// Exit status: 0 done, 1 a job was rejected or did not succeed, 2 invalid input or no cluster,
    /// 124 timeout.
    Submit(submit::SubmitOptions),
    /// Suspend jobs: they release their GPUs and can be resumed later.
    /// Exit status: 0 done, 1 a job does not exist or has ended, 2 no cluster, 124 timeout.
    Suspend(suspend::SuspendOptions),
    /// Resume suspended jobs: they are queued again.
    /// Exit status: as for suspend.
    Resume(suspend::SuspendOptions),
    /// End jobs and delete them; their pods get their grace period.
    /// Exit status: as for suspend.
    Cancel(cancel::CancelOptions),
    /// Check on a cluster whether Trellis keeps its promises about gangs.
    /// Reads jobs, PodGroups, pods, nodes and the operator's Lease; writes nothing. Exit status: 0
    /// all rules hold, 1 a rule is broken, 2 the cluster could not be seen.
    Verify(verify::VerifyOptions),
    /// Print the script that completes commands and options in a shell.
    Completions(completions::CompletionsOptions),
    /// Write man pages into a folder, one for each command.
    Man(completions::ManOptions),
    /// Print the version.
    Version,
}

/// Runs a command. Errors go to standard error, with advice how to fix them.
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
        Command::History(options) => return to_exit_code(history::run(&options)),
        Command::WhatIf(options) => return to_exit_code(what_if::run(&options)),
        Command::Dashboard(options) => return to_exit_code(dashboard::run(&options)),
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
        Command::Verify(options) => return to_exit_code(verify::run(&options)),
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

/// Returns the exit status of the command, or prints its error and returns 2.
fn to_exit_code(result: anyhow::Result<ExitCode>) -> ExitCode {
    result.unwrap_or_else(|error| {
        warn(&format!("error: {error:#}"));
        Exit::Invalid.into()
    })
}

/// Returns the name for help texts.
/// The program `kubectl-trellis` on the PATH is the command `kubectl trellis`.
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

    /// The short flags of all commands, as in docs/command-line.md.
    /// As in kubectl, two options have the flag `-f`.
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
                let listed = SHORT_FLAGS.iter().find(|(_, name)| *name == long);
                assert_eq!(short, listed.map(|(letter, _)| *letter), "{name} --{long}");
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
