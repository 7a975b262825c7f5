//! `trellis completions` and `trellis man`: shell completions and man pages.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::CommandFactory as _;
use clap::builder::PossibleValue;
use clap_complete::Shell;

use super::Cli;
use crate::output;

/// Options of `trellis completions`.
#[derive(clap::Args, Debug)]
pub(super) struct CompletionsOptions {
    /// The shell; `source <(trellis completions bash)` loads its completions.
    /// With kubectl, the output is a program that completes `kubectl trellis`; save it as
    /// `kubectl_complete-trellis` on the PATH.
    #[arg(value_enum)]
    shell: CompletionTarget,
}

/// The program that uses the completions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CompletionTarget {
    Shell(Shell),
    Kubectl,
}

impl clap::ValueEnum for CompletionTarget {
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

/// A separate program that kubectl runs for completions, in any shell.
/// It gets the words after `kubectl trellis`, and completes the last word. It prints one candidate
/// per line. The last line is a directive of Cobra to the shell (4: add no files). The candidates
/// come from bash's completion function, which also works without an interactive shell.
const SCRIPT_HEAD: &str = "#!/usr/bin/env bash\n";
const SCRIPT_TAIL: &str = r#"
COMP_WORDS=(trellis "$@") COMP_CWORD=$# COMPREPLY=()
before=trellis
(($# < 2)) || before=${COMP_WORDS[$# - 1]}
_trellis trellis "${COMP_WORDS[$#]}" "$before" 2>/dev/null
((${#COMPREPLY[@]} == 0)) || printf '%s\n' "${COMPREPLY[@]}"
echo :4
"#;

fn generate_script(target: CompletionTarget) -> Vec<u8> {
    let (before, shell, after) = match target {
        CompletionTarget::Shell(shell) => ("", shell, ""),
        CompletionTarget::Kubectl => (SCRIPT_HEAD, Shell::Bash, SCRIPT_TAIL),
    };
    let mut text = before.as_bytes().to_vec();
    clap_complete::generate(shell, &mut Cli::command(), "trellis", &mut text);
    text.extend_from_slice(after.as_bytes());
    text
}

/// Options of `trellis man`.
#[derive(clap::Args, Debug)]
pub(super) struct ManOptions {
    /// The folder, such as ~/.local/share/man/man1.
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
}

/// Prints the completions.
/// They complete `trellis`, also if this program has another name.
pub(super) fn print_completions(options: &CompletionsOptions) -> anyhow::Result<()> {
    output::print(&String::from_utf8_lossy(&generate_script(options.shell)))
}

pub(super) fn write_man_pages(options: &ManOptions) -> anyhow::Result<()> {
    let folder = &options.folder;
    let failed = || format!("cannot write man pages into {folder:?}");
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
    fn every_command_has_a_man_page_and_completions() {
        let folder = tempfile::tempdir().unwrap();
        let man = ManOptions {
            folder: folder.path().join("man1"),
        };
        write_man_pages(&man).unwrap();
        let bash =
            String::from_utf8(generate_script(CompletionTarget::Shell(Shell::Bash))).unwrap();
        for command in Cli::command().get_subcommands() {
            let name = command.get_name();
            let page = man.folder.join(format!("trellis-{name}.1"));
            let page = std::fs::read_to_string(page).unwrap();
            assert!(page.contains(".SH SYNOPSIS"), "{name}");
            assert!(bash.contains(&format!("trellis,{name})")), "{name}");
        }
        for shell in Shell::value_variants() {
            let shell = CompletionTarget::Shell(*shell);
            assert!(
                CompletionTarget::value_variants().contains(&shell),
                "{shell:?}"
            );
        }
        for shell in CompletionTarget::value_variants() {
            assert!(!generate_script(*shell).is_empty(), "{shell:?}");
        }
    }

    #[test]
    fn error_names_the_folder_that_cannot_be_created() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let man = ManOptions {
            folder: file.path().join("man1"),
        };
        let error = format!("{:#}", write_man_pages(&man).unwrap_err());
        assert!(error.contains("cannot write man pages into"), "{error}");
    }
}
