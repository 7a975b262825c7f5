//! Captures the log of a test.

use std::io::Write;
use std::sync::Arc;

use parking_lot::Mutex;
use tracing::subscriber::DefaultGuard;

/// Lines of this thread's log.
#[derive(Clone, Default)]
pub struct CapturedLog(Arc<Mutex<Vec<u8>>>);

impl CapturedLog {
    /// Captures lines until the guard is dropped.
    pub fn begin() -> (Self, DefaultGuard) {
        let written = Self::default();
        let writer = written.clone();
        let lines = tracing_subscriber::fmt()
            .with_ansi(false)
            .with_writer(move || writer.clone())
            .finish();
        (written, tracing::subscriber::set_default(lines))
    }

    /// Returns the lines that were logged.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let written = String::from_utf8_lossy(&self.0.lock()).into_owned();
        written.lines().map(str::to_owned).collect()
    }
}

impl Write for CapturedLog {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
