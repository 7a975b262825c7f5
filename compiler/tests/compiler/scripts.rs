//! Runs the scripts of a job with fake programs, which record their arguments.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

/// The scripts of a job, with their paths below a folder, and fake programs.
pub struct ScriptRunner {
    folder: tempfile::TempDir,
}

impl ScriptRunner {
    /// `$ROOT` in a program is the folder.
    pub fn new(files: BTreeMap<String, String>, programs: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().to_str().unwrap().to_owned();
        let shell = Self { folder };
        for (name, text) in files {
            let text = text.replace("/etc/trellis", &root);
            shell.write(&format!("hosts/{name}"), &text);
        }
        for (name, text) in programs {
            let text = text.replace("$ROOT", &root);
            shell.write(&format!("bin/{name}"), &format!("#!/bin/sh\n{text}\n"));
        }
        shell
    }

    pub fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    pub fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o555)).unwrap();
    }

    pub fn run(&self, script: &str, arguments: &[&str]) -> Output {
        self.run_with_env(script, arguments, &[])
    }

    pub fn run_with_env(&self, script: &str, arguments: &[&str], env: &[(&str, &str)]) -> Output {
        let path = format!("{}:/usr/bin:/bin", self.path("bin").display());
        let mut command = Command::new("sh");
        command.arg(self.path(script)).args(arguments);
        command.env("PATH", path).env_remove("LD_LIBRARY_PATH");
        command.envs(env.iter().copied());
        command.output().unwrap()
    }

    /// Lines of the file `log`.
    pub fn log(&self) -> Vec<String> {
        let root = self.folder.path().to_str().unwrap();
        let log = fs::read_to_string(self.path("log")).unwrap_or_default();
        log.lines().map(|l| l.replace(root, "")).collect()
    }
}

pub fn program_exists(name: &str) -> bool {
    Path::new("/bin").join(name).exists() || Path::new("/usr/bin").join(name).exists()
}
