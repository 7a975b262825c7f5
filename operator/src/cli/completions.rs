//! `trellis completions` and `trellis man`: what shells and man(1) know of the commands.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::CommandFactory as _;
use clap_complete::Shell;

use super::Cli;

/// Which shell.
#[derive(clap::Args, Debug)]
pub(super) struct Options {
    /// The shell: `source <(trellis completions bash)` has them in the one that runs.
    #[arg(value_enum)]
    shell: Shell,
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
    let mut command = Cli::command();
    let mut text = Vec::new();
    clap_complete::generate(options.shell, &mut command, "trellis", &mut text);
    super::print(&String::from_utf8_lossy(&text))
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
    use super::*;
    use clap::ValueEnum as _;

    #[test]
    fn every_command_has_a_page_and_is_completed() {
        let folder = tempfile::tempdir().unwrap();
        let man = Man {
            folder: folder.path().join("man1"),
        };
        write(&man).unwrap();
        let mut bash = Vec::new();
        clap_complete::generate(Shell::Bash, &mut Cli::command(), "trellis", &mut bash);
        let bash = String::from_utf8(bash).unwrap();
        for command in Cli::command().get_subcommands() {
            let name = command.get_name();
            let page = man.folder.join(format!("trellis-{name}.1"));
            let page = std::fs::read_to_string(page).unwrap();
            assert!(page.contains(".SH SYNOPSIS"), "{name}");
            assert!(bash.contains(&format!("trellis,{name})")), "{name}");
        }
        for shell in Shell::value_variants() {
            let mut text = Vec::new();
            clap_complete::generate(*shell, &mut Cli::command(), "trellis", &mut text);
            assert!(!text.is_empty(), "{shell}");
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
