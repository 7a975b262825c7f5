//! `trellis completions` and `trellis man`: what shells and man(1) know of the commands.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::CommandFactory as _;
use clap::builder::PossibleValue;
use clap_complete::Shell;

use super::Cli;
use crate::output;

/// Which shell.
#[derive(clap::Args, Debug)]
pub(super) struct Options {
    /// The shell: `source <(trellis completions bash)` has them in the one that runs. kubectl: a
    /// program that completes `kubectl trellis`, as `kubectl_complete-trellis` on the PATH.
    #[arg(value_enum)]
    shell: For,
}

/// Who completes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum For {
    Shell(Shell),
    Kubectl,
}

impl clap::ValueEnum for For {
    fn value_variants<'a>() -> &'a [Self] {
        &[
            Self::Shell(Shell::Bash),
            Self::Shell(Shell::Elvish),
            Self::Shell(Shell::Fish),
            Self::Shell(Shell::PowerShell),
            Self::Shell(Shell::Zsh),
            Self::Kubectl,
        ]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        match self {
            Self::Shell(shell) => shell.to_possible_value(),
            Self::Kubectl => Some(PossibleValue::new("kubectl")),
        }
    }
}

/// A program of its own, which kubectl asks in whatever shell it runs: it hands over the words behind
/// `kubectl trellis`, of which the last is to be completed, and reads a line for each thing that it
/// may be, and in the last what the shell is to do (Cobra's directives; 4: add no files). They are
/// what bash's completion says: its function needs no shell that somebody types into.
const BEFORE: &str = "#!/usr/bin/env bash\n";
const AFTER: &str = r#"
COMP_WORDS=(trellis "$@") COMP_CWORD=$# COMPREPLY=()
before=trellis
(($# < 2)) || before=${COMP_WORDS[$# - 1]}
_trellis trellis "${COMP_WORDS[$#]}" "$before" 2>/dev/null
((${#COMPREPLY[@]} == 0)) || printf '%s\n' "${COMPREPLY[@]}"
echo :4
"#;

fn text(of: For) -> Vec<u8> {
    let (before, shell, after) = match of {
        For::Shell(shell) => ("", shell, ""),
        For::Kubectl => (BEFORE, Shell::Bash, AFTER),
    };
    let mut text = before.as_bytes().to_vec();
    clap_complete::generate(shell, &mut Cli::command(), "trellis", &mut text);
    text.extend_from_slice(after.as_bytes());
    text
}

/// Where to.
#[derive(clap::Args, Debug)]
pub(super) struct Man {
    /// The folder, such as ~/.local/share/man/man1.
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
}

/// Prints the completions. They are those of `trellis`, whatever it was started as.
pub(super) fn print(options: &Options) -> anyhow::Result<()> {
    output::print(&String::from_utf8_lossy(&text(options.shell)))
}

/// Writes the man pages.
pub(super) fn write(options: &Man) -> anyhow::Result<()> {
    let folder = &options.folder;
    let failed = || format!("no man pages can be written into {folder:?}");
    std::fs::create_dir_all(folder).with_context(failed)?;
    let command = Cli::command()
        .bin_name("trellis")
        .disable_help_subcommand(true);
    clap_mangen::generate_to(command, folder).with_context(failed)
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;

    use super::*;

    #[test]
    fn every_command_has_a_page_and_is_completed() {
        let folder = tempfile::tempdir().unwrap();
        let man = Man {
            folder: folder.path().join("man1"),
        };
        write(&man).unwrap();
        let bash = String::from_utf8(text(For::Shell(Shell::Bash))).unwrap();
        for command in Cli::command().get_subcommands() {
            let name = command.get_name();
            let page = man.folder.join(format!("trellis-{name}.1"));
            let page = std::fs::read_to_string(page).unwrap();
            assert!(page.contains(".SH SYNOPSIS"), "{name}");
            assert!(bash.contains(&format!("trellis,{name})")), "{name}");
        }
        for shell in Shell::value_variants() {
            let shell = For::Shell(*shell);
            assert!(For::value_variants().contains(&shell), "{shell:?}");
        }
        for shell in For::value_variants() {
            assert!(!text(*shell).is_empty(), "{shell:?}");
        }
    }

    #[test]
    fn a_folder_that_cannot_be_is_named() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let man = Man {
            folder: file.path().join("man1"),
        };
        let error = format!("{:#}", write(&man).unwrap_err());
        assert!(
            error.contains("no man pages can be written into"),
            "{error}"
        );
    }
}
