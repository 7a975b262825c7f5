//! Runs a program as a user does, without a cluster.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// Output and exit status of a run.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Run {
    /// The whole result, for a golden file.
    pub(crate) fn golden(&self) -> String {
        format!(
            "exit status {}\n--- standard output\n{}--- standard error\n{}",
            self.code,
            self.out,
            // Golden files must not depend on the checkout path.
            self.err
                .replace(concat!(env!("CARGO_MANIFEST_DIR"), "/../../"), "")
        )
    }
}

/// Runs a program in a folder, with something on its standard input.
pub(crate) fn run(program: &Path, folder: &Path, arguments: &[&str], stdin: &str) -> Run {
    let mut child = Command::new(program)
        .args(arguments)
        .current_dir(folder)
        .env_remove("KUBERNETES_SERVICE_HOST")
        .env("KUBECONFIG", "no-such-kubeconfig")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A program that rejects its arguments does not read standard input.
    let _ = child.stdin.take().unwrap().write_all(stdin.as_bytes());
    let output = child.wait_with_output().unwrap();
    Run {
        code: output.status.code().unwrap(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}
