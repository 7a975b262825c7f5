//! The image, which buildah creates from the static programs of `.ci/image`.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use anyhow::{Context as _, Result, ensure};
use flate2::read::ZlibDecoder;
use libtest_mimic::{Completion, Failed, Trial};
use serde_json::Value;

fn repository_root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The programs of the image.
const PROGRAMS: [&str; 2] = ["trellis", "trellis-operator"];

/// Returns the file of a static program.
fn program_path(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("image");
    folder.join(name)
}

/// Returns why the image cannot be tested, in one line. None: it can.
pub(crate) fn unavailable_reason() -> Option<String> {
    if Command::new("buildah").arg("--version").output().is_err() {
        return Some("the image needs `buildah` (Debian: buildah)".to_owned());
    }
    PROGRAMS.into_iter().find_map(|name| {
        let Ok(built) = fs::metadata(program_path(name)).and_then(|meta| meta.modified()) else {
            return Some("the image needs its programs: run .ci/image".to_owned());
        };
        let sources = source_files(name);
        let is_old =
            sources.is_none_or(|sources| sources.iter().any(|file| is_newer_than(file, built)));
        is_old.then(|| format!("the image's {name} is older than its sources: run .ci/image"))
    })
}

/// Returns true if the file has changed since `built`, or no longer exists.
fn is_newer_than(file: &Path, built: SystemTime) -> bool {
    let changed = fs::metadata(file).and_then(|meta| meta.modified());
    !changed.is_ok_and(|changed| changed <= built)
}

fn target_folder() -> String {
    format!("{}-unknown-linux-musl", std::env::consts::ARCH)
}

/// Returns the sources of a program from Cargo's dep-info file, the manifests of its crates, and
/// the files on which all crates depend. None: Cargo has written no dep-info file.
fn source_files(program: &str) -> Option<BTreeSet<PathBuf>> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).parent()?;
    let file = folder.join(target_folder()).join("release");
    let file = file.join(format!("{program}.d"));
    let text = fs::read_to_string(file).ok()?;
    let (_, listed) = text.lines().next()?.split_once(": ")?;
    // A backslash precedes a space in a name.
    let listed = listed.replace("\\ ", "\0");
    let listed = listed
        .split(' ')
        .map(|word| PathBuf::from(word.replace('\0', " ")));
    let listed: BTreeSet<PathBuf> = listed.collect();
    let manifest = |file: &PathBuf| {
        let mut above = file.ancestors().map(|folder| folder.join("Cargo.toml"));
        above.find(|manifest| manifest.is_file())
    };
    let manifests: BTreeSet<PathBuf> = listed.iter().filter_map(manifest).collect();
    let of_all = [
        "Cargo.toml",
        "Cargo.lock",
        "rust-toolchain.toml",
        ".ci/image",
    ];
    let of_all = of_all.map(|name| repository_root().join(name));
    Some(listed.into_iter().chain(manifests).chain(of_all).collect())
}

/// Returns the crates in a program: name, version, and the folder of a crate of this workspace.
fn linked_crates(program: &str) -> Result<Vec<(String, String, Option<PathBuf>)>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["tree", "--offline", "--locked", "--package", program])
        .args(["--target", &target_folder()])
        .args(["--edges", "normal,no-proc-macro", "--prefix", "none"])
        .args(["--format", "{p}"])
        .current_dir(repository_root())
        .output()?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{stderr}");
    let stderr = String::from_utf8(output.stdout)?;
    let lines: BTreeSet<&str> = stderr.lines().filter(|line| !line.is_empty()).collect();
    let read = |line: &str| {
        let (name, rest) = line.split_once(" v").context(line.to_owned())?;
        let (version, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        let folder = rest.strip_prefix('(').and_then(|rest| rest.split_once(')'));
        let folder = folder.map(|(folder, _)| PathBuf::from(folder));
        let folder = folder.filter(|folder| folder.is_absolute());
        Ok((name.to_owned(), version.to_owned(), folder))
    };
    lines.into_iter().map(read).collect()
}

pub(crate) fn trial() -> Trial {
    let name = "image_holds_two_static_programs_that_list_their_crates";
    Trial::ignorable_test(name, || match unavailable_reason() {
        Some(reason) => Ok(Completion::ignored_with(reason)),
        None => match test_image() {
            Ok(()) => Ok(Completion::Completed),
            Err(error) => Err(Failed::from(format!("{error:#}"))),
        },
    })
}

/// Builds the image into `folder`.
pub(crate) fn build_image(folder: &Path) -> Result<PathBuf> {
    let archive = folder.join("trellis.tar");
    let output = Command::new(repository_root().join(".ci/image"))
        .arg("archive")
        .arg(&archive)
        .output()?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{stderr}");
    Ok(archive)
}

fn test_image() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let archive = build_image(folder.path())?;
    let image = ImageArchive::unpack(&archive, folder.path())?;
    let config = image.read_config()?;
    let field_of = |field: &str| config["config"][field].clone();
    ensure!(field_of("User") == "65532:65532", "{config}");
    ensure!(
        field_of("Entrypoint") == serde_json::json!(["/trellis-operator"]),
        "{config}"
    );
    let files = image.layer_paths()?;
    let files: Vec<&str> = files.lines().filter(|f| !f.ends_with('/')).collect();
    ensure!(files == PROGRAMS, "{files:?}");
    PROGRAMS.into_iter().try_for_each(test_program)
}

fn test_program(program_name: &str) -> Result<()> {
    let bytes = fs::read(program_path(program_name))?;
    let elf = ElfFile(&bytes);
    ensure!(!elf.has_interpreter()?, "the program is not static");
    let crates = elf.embedded_crates()?;
    let locked = fs::read_to_string(repository_root().join("Cargo.lock"))?;
    for (name, version) in &crates {
        let line = format!("name = \"{name}\"\nversion = \"{version}\"\n");
        ensure!(locked.contains(&line), "{name} {version} is not locked");
    }
    let running = linked_crates(program_name)?;
    ensure!(running.len() > 200, "only {running:?}");
    let sources = source_files(program_name).context("Cargo lists no sources")?;
    for (name, version, folder) in running {
        let is_listed = crates.contains(&(name.clone(), version.clone()));
        ensure!(is_listed, "{program_name} does not list {name} {version}");
        // A change in any crate of the workspace makes the program outdated.
        if let Some(folder) = folder {
            let is_source = |file: &PathBuf| file.starts_with(folder.join("src"));
            ensure!(sources.iter().any(is_source), "{}", folder.display());
            ensure!(sources.contains(&folder.join("Cargo.toml")), "{name}");
        }
    }
    ensure!(sources.contains(&repository_root().join("Cargo.lock")));
    let version = Command::new(program_path(program_name))
        .arg("--version")
        .output()?;
    let expected = format!("{program_name} {}\n", env!("CARGO_PKG_VERSION"));
    ensure!(version.stdout == expected.as_bytes(), "{version:?}");
    Ok(())
}

/// An unpacked OCI archive.
struct ImageArchive {
    folder: PathBuf,
    manifest: Value,
}

impl ImageArchive {
    fn unpack(archive: &Path, folder: &Path) -> Result<Self> {
        let folder = folder.join("oci");
        fs::create_dir(&folder)?;
        let mut tar = Command::new("tar");
        tar.arg("-xf").arg(archive).arg("-C").arg(&folder);
        ensure!(tar.status()?.success(), "tar");
        let index: Value = serde_json::from_slice(&fs::read(folder.join("index.json"))?)?;
        let mut this = Self {
            folder,
            manifest: Value::Null,
        };
        this.manifest =
            serde_json::from_slice(&fs::read(this.blob_path(&index["manifests"][0])?)?)?;
        Ok(this)
    }

    fn blob_path(&self, described: &Value) -> Result<PathBuf> {
        let digest = described["digest"].as_str().context("no digest")?;
        Ok(self.folder.join("blobs").join(digest.replace(':', "/")))
    }

    fn read_config(&self) -> Result<Value> {
        Ok(serde_json::from_slice(&fs::read(
            self.blob_path(&self.manifest["config"])?,
        )?)?)
    }

    /// Returns the paths in the only layer.
    fn layer_paths(&self) -> Result<String> {
        let layers = self.manifest["layers"].as_array().context("no layers")?;
        ensure!(layers.len() == 1, "{} layers", layers.len());
        let output = Command::new("tar")
            .arg("-tf")
            .arg(self.blob_path(&layers[0])?)
            .output()?;
        Ok(String::from_utf8(output.stdout)?)
    }
}

/// A 64-bit little-endian ELF program.
struct ElfFile<'a>(&'a [u8]);

impl ElfFile<'_> {
    fn read_number(&self, at: usize, size: usize) -> Result<usize> {
        let bytes = self.0.get(at..at + size).context("the file is too short")?;
        Ok(bytes
            .iter()
            .rev()
            .fold(0, |number, byte| number << 8 | usize::from(*byte)))
    }

    /// Returns true if the program needs a dynamic loader (PT_INTERP).
    fn has_interpreter(&self) -> Result<bool> {
        let (start, size, count) = (
            self.read_number(32, 8)?,
            self.read_number(54, 2)?,
            self.read_number(56, 2)?,
        );
        for index in 0..count {
            if self.read_number(start + index * size, 4)? == 3 {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn find_section(&self, name: &str) -> Result<&[u8]> {
        let (start, size) = (self.read_number(40, 8)?, self.read_number(58, 2)?);
        let (count, names) = (self.read_number(60, 2)?, self.read_number(62, 2)?);
        let names = self.read_number(start + names * size + 24, 8)?;
        for index in 0..count {
            let header = start + index * size;
            let called = names + self.read_number(header, 4)?;
            let called = self.0.get(called..called + name.len() + 1);
            if called.is_some_and(|c| c == [name.as_bytes(), b"\0"].concat()) {
                let (at, long) = (
                    self.read_number(header + 24, 8)?,
                    self.read_number(header + 32, 8)?,
                );
                return self.0.get(at..at + long).context("the file is too short");
            }
        }
        anyhow::bail!("no section {name}")
    }

    /// Returns the crates of the program, and their versions.
    fn embedded_crates(&self) -> Result<BTreeSet<(String, String)>> {
        let mut text = String::new();
        ZlibDecoder::new(self.find_section(".dep-v0")?).read_to_string(&mut text)?;
        let list: Value = serde_json::from_str(&text)?;
        let packages = list["packages"].as_array().context("no packages")?;
        let of =
            |package: &Value, field: &str| package[field].as_str().unwrap_or_default().to_owned();
        Ok(packages
            .iter()
            .map(|p| (of(p, "name"), of(p, "version")))
            .collect())
    }
}
