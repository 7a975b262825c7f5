//! Runs docs/quick-start.md from its first block to its last, as a reader would, and compares the
//! output with the page.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use kube::Api;
use kube::api::DeleteParams;
use tempfile::TempDir;
use tokio::process::Command;
use trellis_api::job::JobPhase;
use trellis_api::{TrainingJob, TrainingQueue};
use trellis_e2e::admission::operator_webhook::{self, FailurePolicy};
use trellis_e2e::cluster::NodeTemplate;
use trellis_e2e::control_plane::{ControlPlane, free_port};
use trellis_e2e::operator::{self, Operator};
use trellis_e2e::site::jobs::phase;
use trellis_e2e::visibility;
use trellis_e2e::wait::{eventually, wait_for, wait_until_deleted};

use super::blocks::{FencedBlock, all_blocks};
use super::repository_root;

/// Longest time until a command prints the output of the page.
const OUTPUT_TIMEOUT: Duration = Duration::from_secs(60);

/// Commands of the page that this test does not run, with the reasons.
const SKIPPED_COMMANDS: [(&str, &str); 4] = [
    ("cargo install ", "the program is built, and on the PATH"),
    (
        "helm install ",
        "tests of the chart install it; here it runs as in the demo",
    ),
    ("helm uninstall ", "there is no release"),
    (
        "kubectl logs ",
        "simulated pods share one log; e2e/tests/real_nodes/logs.rs runs it",
    ),
];

/// The terminal of a reader.
struct Terminal {
    folder: TempDir,
    path: String,
    kubeconfig: std::path::PathBuf,
}

/// The result of a command.
#[derive(Debug)]
struct CommandResult {
    ok: bool,
    out: String,
    err: String,
}

impl Terminal {
    fn new(control_plane: &ControlPlane) -> Result<Self> {
        let program = Path::new(env!("CARGO_BIN_EXE_trellis-under-test"));
        let tools = control_plane.shell_path_line(&[("trellis", program)])?;
        let folder = tools.strip_prefix("export PATH=").context("no PATH")?;
        Ok(Self {
            folder: tempfile::tempdir()?,
            path: folder.replace("$PATH", &std::env::var("PATH")?),
            kubeconfig: control_plane.kubeconfig(),
        })
    }

    async fn run(&self, command: &str) -> Result<CommandResult> {
        let output = Command::new("sh")
            .args(["-c", command])
            .current_dir(self.folder.path())
            .env("PATH", &self.path)
            .env("KUBECONFIG", &self.kubeconfig)
            .kill_on_drop(true)
            .output()
            .await?;
        Ok(CommandResult {
            ok: output.status.success(),
            out: String::from_utf8(output.stdout)?,
            err: String::from_utf8(output.stderr)?,
        })
    }

    /// Runs a command and compares its output. A command that only reads is repeated until its
    /// output matches.
    async fn check_output(&self, command: &str, expected: &str) -> Result<()> {
        let once = async || -> Result<()> {
            let printed = self.run(command).await?;
            ensure!(printed.ok, "{printed:?}");
            if !matches_shown_output(expected, &printed.out) {
                bail!(
                    "the page shows\n{expected}and this is printed\n{}",
                    printed.out
                );
            }
            Ok(())
        };
        let looks = ["kubectl get ", "trellis explain "];
        let result = match looks.iter().any(|begin| command.starts_with(begin)) {
            true => eventually(OUTPUT_TIMEOUT, once).await,
            false => once().await,
        };
        result.with_context(|| format!("$ {command}"))
    }
}

/// Returns true if the output matches the page, except for times. A line `...` of the page matches
/// any number of lines.
fn matches_shown_output(expected: &str, printed: &str) -> bool {
    let expected: Vec<String> = expected.lines().map(without_times).collect();
    let printed: Vec<String> = printed.lines().map(without_times).collect();
    matches_lines(&expected, &printed)
}

fn matches_lines(expected: &[String], printed: &[String]) -> bool {
    match expected.split_first() {
        None => printed.is_empty(),
        Some((first, rest)) if first == "..." => {
            (0..=printed.len()).any(|skipped| matches_lines(rest, &printed[skipped..]))
        }
        Some((first, rest)) => printed
            .split_first()
            .is_some_and(|(line, printed)| line == first && matches_lines(rest, printed)),
    }
}

/// Replaces every time (`3s`, `1m20s`) of a line. A time is at the end of a line, so the columns do
/// not move.
fn without_times(line: &str) -> String {
    let words = line.split(' ').map(|word| match is_time(word) {
        true => "TIME",
        false => word,
    });
    words.collect::<Vec<_>>().join(" ")
}

fn is_time(word: &str) -> bool {
    let mut digits = false;
    let well = word.chars().all(|c| match c {
        '0'..='9' => {
            digits = true;
            true
        }
        's' | 'm' | 'h' | 'd' => std::mem::take(&mut digits),
        _ => false,
    });
    well && !digits && !word.is_empty()
}

/// Returns the commands of a block, each with its shown output.
fn block_commands(block: &FencedBlock) -> Vec<(String, String)> {
    if block.language == "sh" {
        let lines = block.text.lines().filter(|line| !line.is_empty());
        return lines.map(|line| (line.to_owned(), String::new())).collect();
    }
    let mut commands: Vec<(String, String)> = Vec::new();
    for line in block.text.lines() {
        match (line.strip_prefix("$ "), commands.last_mut()) {
            (Some(command), _) => commands.push((command.to_owned(), String::new())),
            (None, Some((_, shown))) => shown.push_str(&format!("{line}\n")),
            (None, None) => panic!("{line:?} stands before the first command"),
        }
    }
    commands
}

/// Returns the file name of a YAML block: the last file name in the page before the block.
fn block_file(page: &str, block: &FencedBlock) -> Option<String> {
    let before: Vec<&str> = page.lines().take(block.line - 1).collect();
    let before = before.join("\n");
    let code = before.split('`').skip(1).step_by(2);
    let names = code.filter(|name| name.ends_with(".yaml") && !name.contains([' ', '/']));
    names.last().map(str::to_owned)
}

/// Starts the control plane of the demo with another number of nodes, and with the webhook.
async fn start_control_plane() -> Result<(ControlPlane, Operator)> {
    let control_plane = operator::start_control_plane().await?;
    let (port, webhook) = (free_port()?, free_port()?);
    visibility::install(&control_plane, port).await?;
    operator_webhook::install(&control_plane, webhook, FailurePolicy::Ignore).await?;
    let mut launch = visibility::launch_options("operator", port).lease_seconds(60);
    launch
        .arguments
        .extend(operator_webhook::launch_options("", webhook).arguments);
    let kubeconfig = operator::kubeconfig(&control_plane, operator::POD);
    let program = Path::new(env!("CARGO_BIN_EXE_trellis-under-test"));
    let operator =
        Operator::launch_with_options(&control_plane, program, &kubeconfig.await?, &launch)?;
    visibility::wait_for_availability(&control_plane, true).await?;
    operator_webhook::wait_until_called(&control_plane).await?;
    operator::wait_until_jobs_accepted(&control_plane).await?;
    Ok((control_plane, operator))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn quick_start_commands_print_the_output_of_the_page() {
    let (control_plane, operator) = start_control_plane().await.unwrap();
    let _gpu = NodeTemplate::new(2)
        .gpu_taint()
        .create(&control_plane)
        .await
        .unwrap();
    let _cpu = NodeTemplate::new(2)
        .name("cpu-{i}")
        .gpus(0)
        .capacity("cpu", "16")
        .capacity("memory", "64Gi")
        .create(&control_plane)
        .await
        .unwrap();
    let walked = run_page(&control_plane).await;
    walked
        .with_context(|| operator.log_tail())
        .unwrap_or_else(|error| panic!("{error:#}"));
}

async fn run_page(control_plane: &ControlPlane) -> Result<()> {
    let page = std::fs::read_to_string(repository_root().join("docs/quick-start.md"))?;
    let terminal = Terminal::new(control_plane)?;
    let mut run = 0;
    for block in all_blocks(&page) {
        let at = || format!("docs/quick-start.md:{}", block.line);
        match block.language.as_str() {
            "yaml" => {
                let name = block_file(&page, &block).with_context(at)?;
                std::fs::write(terminal.folder.path().join(name), &block.text)?;
            }
            "sh" | "console" => {
                for (command, expected) in block_commands(&block) {
                    let is_left = |(begin, _): &(&str, _)| command.starts_with(begin);
                    if SKIPPED_COMMANDS.iter().any(is_left) {
                        continue;
                    }
                    match block.language.as_str() {
                        // The page does not show the output.
                        "sh" => {
                            let printed = terminal.run(&command).await?;
                            ensure!(printed.ok, "{}: $ {command}: {printed:?}", at());
                        }
                        _ => terminal
                            .check_output(&command, &expected)
                            .await
                            .with_context(at)?,
                    }
                    run += 1;
                    if command.starts_with("trellis resume first ") {
                        check_resumed(control_plane).await.with_context(at)?;
                    }
                }
            }
            // The message of the refusal is the same from the webhook and from the operator.
            "text" => {
                check_refused(control_plane, &terminal, &block.text)
                    .await
                    .with_context(at)?;
            }
            other => bail!("{}: the test cannot run a block of type {other:?}", at()),
        }
    }
    ensure!(run >= 13, "only {run} commands");
    check_no_objects_left(control_plane).await
}

/// "`first` waits now, as its second attempt."
async fn check_resumed(control_plane: &ControlPlane) -> Result<()> {
    let jobs: Api<TrainingJob> = Api::namespaced(control_plane.client(), "red");
    let is_waiting = |job: &TrainingJob| {
        let attempt = job.status.as_ref().and_then(|s| s.attempt);
        phase(job) == Some(JobPhase::Queued) && attempt == Some(2)
    };
    wait_for(&jobs, "first", OUTPUT_TIMEOUT, is_waiting).await?;
    Ok(())
}

/// The webhook, or without it the operator, refuses `hello.yaml` with `image: busybox` with this
/// message.
async fn check_refused(
    control_plane: &ControlPlane,
    terminal: &Terminal,
    trimmed: &str,
) -> Result<()> {
    let folder = terminal.folder.path();
    let hello = std::fs::read_to_string(folder.join("hello.yaml"))?;
    let untagged = hello
        .replace("busybox:1.37", "busybox")
        .replace("name: hello,", "name: untagged,");
    std::fs::write(folder.join("untagged.yaml"), untagged)?;
    let trimmed = trimmed.trim_end();
    let (reason, words) = trimmed.split_once(": ").context("no reason")?;
    let server = format!("Error from server ({reason}): ");
    let apply = "kubectl apply -f untagged.yaml";
    // The webhook must first know the policy.
    let dry_run = format!("{apply} --dry-run=server");
    eventually(OUTPUT_TIMEOUT, || async {
        let printed = terminal.run(&dry_run).await?;
        ensure!(!printed.ok, "the job is accepted");
        let denied = printed.err.starts_with(&server) && printed.err.contains(words);
        ensure!(denied, "{printed:?}");
        Ok(())
    })
    .await?;
    let api: Api<ValidatingWebhookConfiguration> = Api::all(control_plane.client());
    api.delete(operator_webhook::WEBHOOK_NAME, &DeleteParams::default())
        .await?;
    eventually(OUTPUT_TIMEOUT, || async {
        let printed = terminal.run(apply).await?;
        ensure!(printed.ok, "{printed:?}");
        Ok(())
    })
    .await?;
    let jobs: Api<TrainingJob> = Api::namespaced(control_plane.client(), "default");
    let is_refused = |job: &TrainingJob| phase(job) == Some(JobPhase::Refused);
    let job = wait_for(&jobs, "untagged", OUTPUT_TIMEOUT, is_refused).await?;
    let status = job.status.unwrap_or_default();
    let current_reason = status.reason.map_or("", trellis_api::Reason::as_str);
    let current_message = status.message.unwrap_or_default();
    ensure!(
        (current_reason, current_message.as_str()) == (reason, words),
        "{current_reason}: {current_message}"
    );
    Ok(())
}

/// Checks that the objects of the page are gone, except those that the page says remain.
async fn check_no_objects_left(control_plane: &ControlPlane) -> Result<()> {
    let client = control_plane.client();
    let jobs: Api<TrainingJob> = Api::all(client.clone());
    let remaining = jobs.list(&Default::default()).await?.items;
    ensure!(remaining.is_empty(), "{remaining:?}");
    let queues: Api<TrainingQueue> = Api::all(client.clone());
    for queue in ["red", "blue", "pool"] {
        wait_until_deleted(&queues, queue, OUTPUT_TIMEOUT).await?;
    }
    queues.get("default").await?;
    let policies: Api<trellis_api::ClusterJobPolicy> = Api::all(client);
    policies.get("starter").await?;
    ensure!(policies.get_opt("tagged-images").await?.is_none());
    Ok(())
}

#[test]
fn output_matches_the_page_except_for_times() {
    let expected = "NAME   AGE\nhello  3s\n...\nlast\n";
    assert!(matches_shown_output(
        expected,
        "NAME   AGE\nhello  1m20s\nmore\nand more\nlast\n"
    ));
    assert!(matches_shown_output(
        expected,
        "NAME   AGE\nhello  2h\nlast\n"
    ));
    for other in [
        "NAME   AGE\nhello  3\nlast\n",
        "NAME  AGE\nhello  3s\nlast\n",
        "NAME   AGE\nhello  3s\nlast\nmore\n",
        "NAME   AGE\nhello  3s\n",
    ] {
        assert!(!matches_shown_output(expected, other), "{other}");
    }
}
