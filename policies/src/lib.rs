//! May they? Decided over the compiled job.
