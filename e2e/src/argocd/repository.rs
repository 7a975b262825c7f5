//! A git repository on this machine from which Argo CD delivers.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use tempfile::TempDir;

/// A repository with one branch. It is deleted when this value is dropped.
#[derive(Debug)]
pub struct Repository {
    folder: TempDir,
}

impl Repository {
    /// Creates a repository whose first commit has these files, by path.
    ///
    /// # Errors
    ///
    /// When git fails, with its output.
    pub fn create_with_files(files: &[(&str, &str)]) -> Result<Self> {
        let repository = Self {
            folder: tempfile::Builder::new().prefix("trellis-git-").tempdir()?,
        };
        repository.run_git(&["init", "--quiet", "--initial-branch=main"])?;
        repository.commit_files(files)?;
        Ok(repository)
    }

    /// Creates a repository with the content of a folder.
    ///
    /// # Errors
    ///
    /// When the folder cannot be read, or git fails.
    pub fn from_folder(folder: &Path) -> Result<Self> {
        let repository = Self::create_with_files(&[])?;
        crate::folder::copy_folder(folder, repository.folder.path())?;
        repository.commit_files(&[])?;
        Ok(repository)
    }

    /// The address of the repository for Argo CD.
    #[must_use]
    pub fn url(&self) -> String {
        format!("file://{}", self.folder.path().display())
    }

    /// Writes these files, keeps the other files, and commits. Returns the hash of the new commit.
    ///
    /// # Errors
    ///
    /// When git fails, with its output.
    pub fn commit_files(&self, files: &[(&str, &str)]) -> Result<String> {
        for (path, content) in files {
            let path = self.folder.path().join(path);
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent)?;
            }
            fs::write(path, content)?;
        }
        self.run_git(&["add", "--all"])?;
        self.run_git(&["commit", "--quiet", "--allow-empty", "--message=test"])?;
        self.run_git(&["rev-parse", "HEAD"])
    }

    /// Removes a file and commits. Returns the hash of the new commit.
    ///
    /// # Errors
    ///
    /// When git fails, with its output.
    pub fn remove_file(&self, path: &str) -> Result<String> {
        self.run_git(&["rm", "--quiet", path])?;
        self.commit_files(&[])
    }

    /// Runs git without the settings of the user who runs the test.
    fn run_git(&self, arguments: &[&str]) -> Result<String> {
        let output = Command::new("git")
            .args(arguments)
            .current_dir(self.folder.path())
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .envs(["AUTHOR", "COMMITTER"].map(|role| (format!("GIT_{role}_NAME"), "test")))
            .envs(
                ["AUTHOR", "COMMITTER"]
                    .map(|role| (format!("GIT_{role}_EMAIL"), "test@example.com")),
            )
            .output()
            .context("start git")?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        ensure!(
            output.status.success(),
            "git {}: {stderr}",
            arguments.join(" ")
        );
        Ok(String::from_utf8(output.stdout)?.trim_end().to_owned())
    }
}
