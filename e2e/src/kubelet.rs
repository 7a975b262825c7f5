//! Annotations with which a test instructs a simulated kubelet. They also work on a pod that
//! already runs. The Stage files in `control-plane/stages` implement them.

/// A running pod ends with this exit code: `"0"` is Succeeded, all others Failed.
pub const EXIT: &str = "test.trellis.dev/exit";

/// The reason of the ended containers in place of `Completed` or `Error`, such as `OOMKilled`.
pub const EXIT_REASON: &str = "test.trellis.dev/exit-reason";

/// How long a pod runs before it ends (`"3s"`, a Go duration), with code 0 unless [`EXIT`] says
/// another. The time starts anew when the pod object changes.
pub const RUN_FOR: &str = "test.trellis.dev/run-for";

/// The kubelet refuses the pod with this reason, such as `OutOfnvidia.com/gpu`.
pub const REFUSE: &str = "test.trellis.dev/refuse";

/// Confines [`REFUSE`] to the node of this name.
pub const REFUSE_ON: &str = "test.trellis.dev/refuse-on";

/// `"true"`: the pod is admitted but its containers are never created.
pub const HANG: &str = "test.trellis.dev/hang";

/// The waiting reason of containers of a pod that [hangs](HANG), in place of `ContainerCreating`,
/// such as `CreateContainerConfigError`. The message is `test: <reason>: not found`, unless
/// [`HANG_MESSAGE`] says another.
pub const HANG_REASON: &str = "test.trellis.dev/hang-reason";

/// The message beside [`HANG_REASON`].
pub const HANG_MESSAGE: &str = "test.trellis.dev/hang-message";

/// The termination message of the containers, such as the last lines of their log.
pub const TERMINATION_MESSAGE: &str = "test.trellis.dev/last-words";

/// How long a deleted pod takes to stop (`"3s"`, seconds), at most its grace period.
pub const STOP_AFTER: &str = "test.trellis.dev/stop-after";

/// `"true"`: a deleted pod stays Terminating.
pub const STUCK_TERMINATING: &str = "test.trellis.dev/stuck-terminating";
