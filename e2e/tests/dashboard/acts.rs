//! Acts of the harness that browser tests ask for. A test creates an empty file with the name of an
//! act, and the harness creates `<name>.done` when it has acted.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;

/// Interval between two looks into the folder.
const INTERVAL: Duration = Duration::from_millis(100);

/// An act of the harness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// Kill the operator.
    StopOperator,
    /// Start an operator, and wait until the API server reaches it.
    StartOperator,
}

impl Act {
    const ALL: [Self; 2] = [Self::StopOperator, Self::StartOperator];

    fn file_name(self) -> &'static str {
        match self {
            Self::StopOperator => "stop-operator",
            Self::StartOperator => "start-operator",
        }
    }
}

/// Waits until a test asks for an act.
pub(crate) async fn next_act(folder: &Path) -> Act {
    loop {
        for act in Act::ALL {
            if std::fs::remove_file(folder.join(act.file_name())).is_ok() {
                return act;
            }
        }
        tokio::time::sleep(INTERVAL).await;
    }
}

/// Tells the test that the act is done.
pub(crate) fn report_done(folder: &Path, act: Act) -> Result<()> {
    std::fs::write(folder.join(format!("{}.done", act.file_name())), "")?;
    Ok(())
}
