//! The commands, and which function runs each.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::exit::Exit;
use crate::output::{print, warn};
use crate::suspend::{self, Want};
use crate::{
    cancel, completions, crds, explain, import, logs, nodes, plan, policy, queue, replay, simulate,
    status, submit, top,
};

/// Plan, submit, watch and explain TrainingJobs: gangs of GPU pods that run all together or not at
/// all.
#[derive(Parser, Debug)]
#[command(name = "trellis", bin_name = called(), version)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Print the CustomResourceDefinitions, for `kubectl apply --server-side -f -`.
    Crds(crds::Options),
    /// Show what jobs would be compiled into, and where they would go or why they
    /// would wait. Reads the current cluster, or files; writes nothing. Exit status:
    /// 0 all would run, 1 one would not, 2 invalid input or no cluster.
    Plan(plan::Options),
    /// For those who write policies: test, try, compare and format them.
    Policy(policy::Options),
    /// Let jobs come, in virtual time: of files, recorded, or made up; say what the
    /// engine makes of them. Exit status: 0 all was as expected, 1 something was
    /// not, 2 invalid input.
    Simulate(simulate::Options),
    /// Turn what Volcano, Kueue, Kubeflow and Lattice use into Trellis' objects, and say of
    /// every field what was not carried over. Reads files; writes nothing. Exit status: 0
    /// all is turned, 1 a document cannot be (--strict: or something is to be said of one),
    /// 2 invalid input.
    Import(import::Options),
    /// Decide again what a running scheduler had to decide when it wrote a snapshot:
    /// the decisions, and why those wait that do. The same every time.
    Replay(replay::Options),
    /// Show all that waits and all that runs, queue by queue: position, who, GPUs, state, since
    /// when, when it starts or ends, and why it waits. Exit status: 0 shown, 1 there is no such
    /// queue, 2 no cluster, or none that tells.
    Queue(queue::Options),
    /// Show what of each node is free, who holds the rest, for whom it is reserved, and what is
    /// wrong with it. Exit status: 0 shown, 1 there is no such node, 2 no cluster, or none that
    /// tells.
    Nodes(nodes::Options),
    /// Say why a job waits: what it lacks, what each node is to it, who would make room, when it
    /// starts, and the smallest change that would help. Exit status: 0 said, 1 there is no such
    /// job, 2 no cluster.
    Explain(explain::Options),
    /// Show one job in one screen: phase and reason, attempts, times, its objects, its pods by
    /// node, its last events. Exit status: 0 shown, 1 there is no such job, 2 no cluster.
    Status(status::Options),
    /// Print what the pods of a job write, by rank, group and index; with -f over restarts. Exit
    /// status: 0 printed, 1 there is no such job or no log, 2 no cluster.
    Logs(logs::Options),
    /// Show what jobs make of the GPUs that they hold, those that waste most first, as NVIDIA's
    /// DCGM exporter tells it. Exit status: 0 shown, 1 there is no such job, 2 no cluster, or no
    /// exporter.
    Top(top::Options),
    /// Create jobs, and wait for them. Exit status: 0 done, 1 a job was not taken or did not end
    /// well, 2 invalid input or no cluster, 124 the time is over.
    Submit(submit::Options),
    /// Have jobs give their places back; they keep their place in history and can be resumed.
    /// Exit status: 0 done, 1 a job is not there or has ended, 2 no cluster, 124 the time is over.
    Suspend(suspend::Options),
    /// Have suspended jobs wait for a place again. Exit status: as of suspend.
    Resume(suspend::Options),
    /// End jobs and delete them; their pods have their grace. Exit status: as of suspend.
    Cancel(cancel::Options),
    /// Print what completes commands and options in a shell.
    Completions(completions::Options),
    /// Write man pages, one a command, into a folder.
    Man(completions::Man),
    /// Print the version.
    Version,
}

/// Runs a command. Errors go to standard error, with what to do about them.
#[must_use]
pub fn run(cli: Cli) -> ExitCode {
    let result = match cli.command {
        Command::Plan(options) => return exit(plan::run(&options)),
        Command::Policy(options) => return exit(policy::run(&options)),
        Command::Simulate(options) => return exit(simulate::run(&options)),
        Command::Import(options) => return exit(import::run(&options)),
        Command::Replay(options) => return exit(replay::run(&options)),
        Command::Queue(options) => return exit(queue::run(&options)),
        Command::Nodes(options) => return exit(nodes::run(&options)),
        Command::Explain(options) => return exit(explain::run(&options)),
        Command::Status(options) => return exit(status::run(&options)),
        Command::Logs(options) => return exit(logs::run(&options)),
        Command::Top(options) => return exit(top::run(&options)),
        Command::Submit(options) => return exit(submit::run(&options)),
        Command::Suspend(options) => return exit(suspend::run(&options, Want::Suspended)),
        Command::Resume(options) => return exit(suspend::run(&options, Want::Resumed)),
        Command::Cancel(options) => return exit(cancel::run(&options)),
        Command::Completions(options) => completions::print(&options),
        Command::Man(options) => completions::write(&options),
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
fn exit(result: anyhow::Result<ExitCode>) -> ExitCode {
    result.unwrap_or_else(|error| {
        warn(&format!("error: {error:#}"));
        Exit::Invalid.into()
    })
}

/// The words that start us: kubectl runs a program `kubectl-trellis` of the PATH
/// as `kubectl trellis`.
fn called() -> &'static str {
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
    fn the_commands_and_their_options_go_together() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_short_flag_means_the_same_in_every_command() {
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
