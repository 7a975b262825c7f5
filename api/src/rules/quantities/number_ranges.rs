//! Rules on the range of whole numbers: counts, ports, seconds.

use crate::job::NetworkPort;
use crate::rules::rule::Rule;

/// Number of pods of a group.
pub const REPLICAS: Rule = Rule::new(
    "self >= 1 && self <= 4096",
    "must be 1 to 4096: use several task groups, or several jobs, for more",
);
/// Number of devices of a pod.
pub const GPUS: Rule = Rule::new(
    "self >= 0 && self <= 64",
    "must be 0 to 64 whole devices for each pod: raise replicas for more",
);
/// Ports.
pub const PORT: Rule = Rule::new("self >= 1 && self <= 65535", "must be a port, 1 to 65535");
/// Ranges of ports.
pub const PORT_RANGE: Rule = Rule::new(
    "!has(self.endPort) || self.endPort >= self.port",
    "endPort must not be less than port",
);
/// User and group ids.
pub const USER_ID: Rule = Rule::new(
    "self >= 0 && self <= 2147483647",
    "must be a numeric id, 0 to 2147483647",
);
/// Limits on restarts.
pub const LIMIT: Rule = Rule::new("self >= 0 && self <= 10000", "must be 0 to 10000 restarts");
/// Back-off.
pub const BACKOFF_SECONDS: Rule = Rule::new(
    "self >= 0 && self <= 86400",
    "must be 0 to 86400 seconds (a day)",
);
/// Deadlines.
pub const DEADLINE: Rule = Rule::new(
    "self >= 1 && self <= 31536000",
    "must be 1 to 31536000 seconds (a year): leave it out for no limit",
);
/// Assumed runtime of a gang that states none.
pub const RUNTIME: Rule = Rule::new(
    "self >= 1 && self <= 31536000",
    "must be 1 to 31536000 seconds (a year): leave it out where nothing is known",
);
/// Time for which a gang is protected from preemption.
pub const MIN_RUNTIME: Rule = Rule::new(
    "self >= 0 && self <= 604800",
    "must be 0 to 604800 seconds (a week)",
);
/// Seconds to stop. With 0, the API server would delete the object of a pod that still runs.
pub const GRACE: Rule = Rule::new(
    "self >= 1 && self <= 3600",
    "must be 1 to 3600 seconds: room that others wait for is not free before",
);
/// Number of nodes of a flavor.
pub const MAX_NODES: Rule = Rule::new(
    "self >= 1 && self <= 10000",
    "must be 1 to 10000 nodes, including those that exist: it bounds what the operator buys",
);
/// Time that the operator waits for new nodes.
pub const PROVISIONING_TIMEOUT: Rule = Rule::new(
    "self >= 60 && self <= 86400",
    "must be 60 to 86400 seconds (a day)",
);
/// Time before the operator orders new nodes.
pub const PROVISIONING_DELAY: Rule = Rule::new(
    "self >= 0 && self <= 86400",
    "must be 0 to 86400 seconds (a day)",
);
/// Time to live.
pub const TTL: Rule = Rule::new(
    "self >= 0 && self <= 31536000",
    "must be 0 to 31536000 seconds (a year)",
);

macro_rules! range {
    ($(#[$doc:meta])* $name:ident, $rule:ident, $type:ty, $range:expr) => {
        $(#[$doc])*
        pub fn $name(value: &$type, _: &()) -> garde::Result {
            $rule.check($range.contains(value))
        }
    };
}

range!(
    /// [`REPLICAS`].
    replicas, REPLICAS, i64, 1..=4096
);
range!(
    /// [`GPUS`].
    gpus, GPUS, i64, 0..=64
);
range!(
    /// [`MAX_NODES`].
    max_nodes, MAX_NODES, i64, 1..=10_000
);
range!(
    /// [`PROVISIONING_TIMEOUT`].
    provisioning_timeout, PROVISIONING_TIMEOUT, i64, 60..=86_400
);
range!(
    /// [`PROVISIONING_DELAY`].
    provisioning_delay, PROVISIONING_DELAY, i64, 0..=86_400
);
range!(
    /// [`PORT`].
    port, PORT, i32, 1..=65_535
);
range!(
    /// [`USER_ID`].
    user_id, USER_ID, i64, 0..=2_147_483_647
);
range!(
    /// [`LIMIT`].
    limit, LIMIT, i64, 0..=10_000
);
range!(
    /// [`BACKOFF_SECONDS`].
    backoff_seconds, BACKOFF_SECONDS, i64, 0..=86_400
);
range!(
    /// [`DEADLINE`].
    deadline, DEADLINE, i64, 1..=31_536_000
);
range!(
    /// [`RUNTIME`].
    runtime, RUNTIME, i64, 1..=31_536_000
);
range!(
    /// [`MIN_RUNTIME`].
    min_runtime, MIN_RUNTIME, i64, 0..=604_800
);
range!(
    /// [`GRACE`].
    grace, GRACE, i64, 1..=3_600
);
range!(
    /// [`TTL`].
    ttl, TTL, i64, 0..=31_536_000
);

/// [`PORT_RANGE`].
pub fn port_range(port: &NetworkPort) -> impl FnOnce(&i32, &()) -> garde::Result {
    let ok = port.last_port() >= port.port;
    move |_, ()| PORT_RANGE.check(ok)
}
