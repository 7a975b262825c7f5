//! Annotations with which a test instructs a simulated kubelet. They also work on a pod that
//! already runs. The Stage files in `control-plane/stages` implement them.

pub mod failures;

/// Ends a running pod with this exit code: `"0"` gives Succeeded, any other code Failed.
pub const EXIT: &str = "test.trellis.dev/exit";

/// The reason of the ended containers instead of `Completed` or `Error`, such as `OOMKilled`.
pub const EXIT_REASON: &str = "test.trellis.dev/exit-reason";

/// Time after which a pod ends (`"3s"`, a Go duration), with code 0 or the code of [`EXIT`]. The
/// time starts again when the pod object changes.
pub const RUN_FOR: &str = "test.trellis.dev/run-for";

/// The kubelet refuses the pod with this reason, such as `OutOfnvidia.com/gpu`.
pub const REFUSE: &str = "test.trellis.dev/refuse";

/// Restricts [`REFUSE`] to the node of this name.
pub const REFUSE_ON: &str = "test.trellis.dev/refuse-on";

/// `"true"`: the pod is admitted but its containers are never created.
pub const HANG: &str = "test.trellis.dev/hang";

/// The waiting reason of the containers of a pod that [hangs](HANG), instead of
/// `ContainerCreating`, such as `CreateContainerConfigError`. The message is that of
/// [`HANG_MESSAGE`], or `test: <reason>: not found`.
pub const HANG_REASON: &str = "test.trellis.dev/hang-reason";

/// The message for [`HANG_REASON`].
pub const HANG_MESSAGE: &str = "test.trellis.dev/hang-message";

/// The termination message of the containers, such as the last lines of their log.
pub const TERMINATION_MESSAGE: &str = "test.trellis.dev/last-words";

/// Time that a deleted pod takes to stop (`"3s"`, in seconds), at most its grace period.
pub const STOP_AFTER: &str = "test.trellis.dev/stop-after";

/// `"true"`: a deleted pod stays Terminating.
pub const STUCK_TERMINATING: &str = "test.trellis.dev/stuck-terminating";
