//! The image for the pods of real nodes.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, ensure};

use crate::binaries::cache;

/// The name of the image in a TrainingJob. It contains a shell, Python with PyTorch, JAX, Ray and
/// mpi4py, Open MPI and ssh, and the user 1000.
pub const IMAGE_NAME: &str = "registry.example/train:1.0";

/// Folder of JAX in the image, for `PYTHONPATH`.
pub const JAX_PATH: &str = "/opt/jax";

/// Folder of Ray in the image, for `PYTHONPATH`. Its `bin` holds the command `ray`.
pub const RAY_PATH: &str = "/opt/ray";

const PYTORCH_PATH: &str = "/usr/lib/python3/dist-packages/torch";

/// The folder that `image.sh` created.
#[derive(Debug, Clone)]
pub(super) struct NodeImage {
    pub(super) folder: PathBuf,
}

impl NodeImage {
    /// Builds the image once per machine. Other processes wait for the build.
    ///
    /// # Errors
    ///
    /// When packages cannot be downloaded; the error has the last output.
    pub(super) fn find_or_build() -> Result<Self> {
        let files = [
            "nodes/image.sh",
            "nodes/jax-requirements.txt",
            "nodes/ray-requirements.txt",
        ];
        let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
        let folder = cache::hashed_folder("image", &files, &release)?;
        let parent = folder.parent().context("the cache is no folder")?;
        fs::create_dir_all(parent)?;
        let lock = File::create(parent.join("lock"))?;
        lock.lock()?;
        if !folder.is_dir() {
            build_image(&folder)?;
        }
        Ok(Self { folder })
    }

    pub(super) fn root_folder(&self) -> PathBuf {
        self.folder.join("rootfs")
    }

    fn has_path(&self, path: &str) -> bool {
        self.root_folder()
            .join(path.trim_start_matches('/'))
            .is_dir()
    }

    pub(super) fn has_pytorch(&self) -> bool {
        self.has_path(PYTORCH_PATH)
    }

    pub(super) fn has_jax(&self) -> bool {
        self.has_path(JAX_PATH)
    }

    pub(super) fn has_ray(&self) -> bool {
        self.has_path(RAY_PATH)
    }
}

/// Returns why the image cannot be built, in one line. None: it can.
pub(super) fn unavailable_reason() -> Option<String> {
    let error = NodeImage::find_or_build().err()?;
    Some(format!("real nodes need packages of Debian: {error:#}"))
}

/// Builds under a temporary name, so that an interrupted build leaves no image.
fn build_image(folder: &Path) -> Result<()> {
    eprintln!(
        "making the image of real nodes, usually a minute, once, into {}",
        folder.display()
    );
    let partial = folder.with_extension("partial");
    if partial.exists() {
        fs::remove_dir_all(&partial)?;
    }
    fs::create_dir(&partial)?;
    let nodes = Path::new(env!("CARGO_MANIFEST_DIR")).join("control-plane/nodes");
    let output = Command::new("sh")
        .arg(nodes.join("image.sh"))
        .arg(&partial)
        .arg(nodes.join("jax-requirements.txt"))
        .arg(nodes.join("ray-requirements.txt"))
        .output()
        .context("start sh")?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "image.sh: {}",
        stderr.lines().last().unwrap_or_default()
    );
    eprint!("{}", String::from_utf8_lossy(&output.stdout));
    fs::rename(&partial, folder)?;
    Ok(())
}
