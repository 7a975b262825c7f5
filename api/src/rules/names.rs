//! Rules on names, paths and addresses.

pub(super) mod syntax;

use std::net::IpAddr;

use super::names::syntax::{is_extended_resource, is_label, is_name, is_qualified_name};
use super::rule::Rule;

/// Name of a job, which is also the name of its Service.
pub const JOB_NAME: Rule = Rule::new(
    "self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$') && size(self.metadata.name) <= 63",
    "must be a DNS-1035 label, since a Service bears it: at most 63 of a-z, 0-9 and -, starting with a letter and not ending with -",
)
.for_field(".metadata.name");
/// Name of a task group, which is a part of pod names.
pub const GROUP_NAME: Rule = Rule::new(
    "self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$') && size(self) <= 24",
    "must be a DNS label of at most 24 characters: a-z, 0-9 and -, not starting or ending with -",
);
/// Names of objects of other kinds.
pub const OBJECT_NAME: Rule = Rule::new(
    "self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",
    "must be the name of an object: at most 253 of a-z, 0-9, - and ., starting and ending with a letter or digit",
);
/// Name of a queue.
pub const QUEUE_NAME: Rule = Rule::new(
    "size(self) <= 63 && self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",
    "must be the name of a queue: at most 63 of a-z, 0-9, - and ., starting and ending with a letter or digit",
);
/// Name of a flavor.
pub const FLAVOR_NAME: Rule = Rule::new(
    "self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",
    "must be the name of a ResourceFlavor, or default: at most 63 of a-z, 0-9, - and ., starting and ending with a letter or digit",
);
/// List of flavor names.
pub const FLAVOR_NAMES: Rule = Rule::new(
    "self.all(f, size(f) <= 63 && f.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$'))",
    "every one must be the name of a ResourceFlavor: at most 63 of a-z, 0-9, - and ., starting and ending with a letter or digit",
);
/// Name of a ResourceFlavor object, which queues refer to.
pub const FLAVOR_OBJECT_NAME: Rule = Rule::new(
    "size(self.metadata.name) <= 63",
    "must have at most 63 characters: shorten it",
)
.for_field(".metadata.name");
/// Name of a queue object, which becomes a label value.
pub const QUEUE_OBJECT_NAME: Rule = Rule::new(
    "size(self.metadata.name) <= 63",
    "must have at most 63 characters: shorten it",
)
.for_field(".metadata.name");
/// Name of a PriorityClass.
pub const PRIORITY_CLASS: Rule = Rule::new(
    "self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",
    "must be the name of a PriorityClass: at most 253 of a-z, 0-9, - and ., starting and ending with a letter or digit",
);
/// System priorities are reserved for cluster components.
pub const SYSTEM_PRIORITY: Rule = Rule::new(
    "!self.startsWith('system-')",
    "priority classes named system-* are for the cluster's own parts: name another, or none",
);
/// Names of devices.
pub const EXTENDED_RESOURCE: Rule = Rule::new(
    "self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[a-zA-Z0-9]([-a-zA-Z0-9_.]*[a-zA-Z0-9])?$') && !self.split('/')[0].endsWith('kubernetes.io')",
    "must be the full name of a device resource, with its vendor's domain, such as nvidia.com/gpu or amd.com/gpu",
);
/// Names of any resources, in quotas.
pub const RESOURCE_NAME: Rule = Rule::new(
    "self.matches('^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[a-zA-Z0-9]([-a-zA-Z0-9_.]*[a-zA-Z0-9])?$')",
    "must be the name of a resource, such as cpu, memory or nvidia.com/gpu",
);
/// Names of ports (IANA service names, RFC 6335).
pub const PORT_NAME: Rule = Rule::new(
    "self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$') && self.matches('[a-z]') && size(self) <= 15",
    "must be a port name: at most 15 of a-z, 0-9 and -, with at least one letter, not starting or ending with -",
);
/// Names of environment variables.
pub const ENV_NAME: Rule = Rule::new(
    "self.matches('^[A-Za-z_][A-Za-z0-9_.-]*$')",
    "must be the name of an environment variable: letters, digits, _, - and ., not starting with a digit",
);
/// Prefix of environment variables.
pub const ENV_PREFIX: Rule = Rule::new(
    "self.matches('^[A-Za-z_][A-Za-z0-9_.-]*$') && !self.startsWith('TRELLIS_') && !self.startsWith('PET_')",
    "must be letters, digits, _, - and ., not starting with a digit, and not TRELLIS_ or PET_, which Trellis sets",
);
/// Mount paths.
pub const MOUNT_PATH: Rule = Rule::new(
    "self.startsWith('/') && !self.endsWith('/') && !self.contains(':') && !self.matches('(^|/)[.][.](/|$)')",
    "must be an absolute path below /, not ending with /, without : and without .. in it",
);
/// Trellis mounts files for frameworks below this path.
pub const RESERVED_PATH: Rule = Rule::new(
    "self != '/etc/trellis' && !self.startsWith('/etc/trellis/')",
    "/etc/trellis is where Trellis puts what a framework reads: choose another path",
);
/// Paths within a volume.
pub const SUB_PATH: Rule = Rule::new(
    "!self.startsWith('/') && !self.matches('(^|/)[.][.](/|$)')",
    "must be a path within the volume: not starting with / and without .. in it",
);
/// IP ranges.
pub const CIDR: Rule = Rule::new(
    "isCIDR(self)",
    "must be a network in CIDR notation, such as 10.20.0.0/16",
);
/// Manager of a job, as in `managedBy` of a batch/v1 Job (KEP-4368).
pub const MANAGED_BY: Rule = Rule::new(
    "size(self) <= 63 && self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/[A-Za-z0-9/._~%!$&()*+,;=:-]+$')",
    "must be a path below a domain, of at most 63 characters, such as kueue.x-k8s.io/multikueue",
);
/// Fields of a pod that variables can contain (`validEnvDownwardAPIFieldPathExpressions`).
pub const ENV_FIELD: Rule = Rule::new(
    "true",
    "must be metadata.name, metadata.namespace, metadata.uid, metadata.labels['<key>'], metadata.annotations['<key>'], spec.nodeName, spec.serviceAccountName, status.hostIP, status.hostIPs, status.podIP or status.podIPs",
);
/// Name of a namespace. The API server checks it in applied objects.
pub const NAMESPACE: Rule = Rule::new(
    "true",
    "must be the name of a namespace: at most 63 of a-z, 0-9 and -, starting and ending with a letter or digit",
);

fn has_parent_step(path: &str) -> bool {
    path.split('/').any(|step| step == "..")
}

/// [`JOB_NAME`].
pub fn job_name(name: &str) -> garde::Result {
    JOB_NAME
        .check(is_label(name, 63) && name.as_bytes().first().is_some_and(u8::is_ascii_lowercase))
}

/// [`ENV_FIELD`].
pub fn env_field(path: &str, _: &()) -> garde::Result {
    let key = ["metadata.labels['", "metadata.annotations['"]
        .iter()
        .find_map(|start| path.strip_prefix(start)?.strip_suffix("']"));
    ENV_FIELD.check(match key {
        Some(key) => is_qualified_name(key),
        None => matches!(
            path,
            "metadata.name"
                | "metadata.namespace"
                | "metadata.uid"
                | "spec.nodeName"
                | "spec.serviceAccountName"
                | "status.hostIP"
                | "status.hostIPs"
                | "status.podIP"
                | "status.podIPs"
        ),
    })
}

/// [`NAMESPACE`].
///
/// # Errors
/// The text is not a valid name of a namespace.
pub fn namespace(name: &str) -> garde::Result {
    NAMESPACE.check(is_label(name, 63))
}

/// [`GROUP_NAME`].
pub fn group_name(name: &str, _: &()) -> garde::Result {
    GROUP_NAME.check(is_label(name, 24))
}

/// [`OBJECT_NAME`].
pub fn object_name(name: &str, _: &()) -> garde::Result {
    OBJECT_NAME.check(is_name(name))
}

/// [`QUEUE_NAME`].
pub fn queue_name(name: &str, _: &()) -> garde::Result {
    QUEUE_NAME.check(name.len() <= 63 && is_name(name))
}

/// [`FLAVOR_NAME`].
pub fn flavor_name(name: &str, _: &()) -> garde::Result {
    FLAVOR_NAME.check(name.len() <= 63 && is_name(name))
}

/// [`PRIORITY_CLASS`] and [`SYSTEM_PRIORITY`].
pub fn priority_class(name: &str, _: &()) -> garde::Result {
    PRIORITY_CLASS.check(is_name(name))?;
    SYSTEM_PRIORITY.check(!name.starts_with("system-"))
}

/// [`EXTENDED_RESOURCE`].
pub fn extended_resource(name: &str, _: &()) -> garde::Result {
    EXTENDED_RESOURCE.check(is_extended_resource(name))
}

/// [`RESOURCE_NAME`].
pub fn resource_name(name: &str, _: &()) -> garde::Result {
    RESOURCE_NAME.check(is_qualified_name(name))
}

/// [`PORT_NAME`].
pub fn port_name(name: &str, _: &()) -> garde::Result {
    PORT_NAME.check(is_label(name, 15) && name.bytes().any(|b| b.is_ascii_lowercase()))
}

fn is_env_name(name: &str) -> bool {
    name.bytes()
        .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.'))
        && name
            .as_bytes()
            .first()
            .is_some_and(|b| b.is_ascii_alphabetic() || *b == b'_')
}

/// [`ENV_NAME`].
pub fn env_name(name: &str, _: &()) -> garde::Result {
    ENV_NAME.check(is_env_name(name))
}

/// [`ENV_PREFIX`].
pub fn env_prefix(name: &str, _: &()) -> garde::Result {
    ENV_PREFIX
        .check(is_env_name(name) && !name.starts_with("TRELLIS_") && !name.starts_with("PET_"))
}

/// [`MOUNT_PATH`].
pub fn mount_path(path: &str, _: &()) -> garde::Result {
    MOUNT_PATH.check(
        path.starts_with('/')
            && !path.ends_with('/')
            && !path.contains(':')
            && !has_parent_step(path),
    )
}

/// [`RESERVED_PATH`].
pub fn reserved_path(path: &str, _: &()) -> garde::Result {
    RESERVED_PATH.check(path != "/etc/trellis" && !path.starts_with("/etc/trellis/"))
}

/// [`SUB_PATH`].
pub fn sub_path(path: &str, _: &()) -> garde::Result {
    SUB_PATH.check(!path.starts_with('/') && !has_parent_step(path))
}

/// [`CIDR`].
pub fn cidr(text: &str, _: &()) -> garde::Result {
    let bits = |ip: IpAddr| if ip.is_ipv4() { 32 } else { 128 };
    let ok = text.split_once('/').is_some_and(|(ip, prefix)| {
        !prefix.is_empty()
            && prefix.bytes().all(|b| b.is_ascii_digit())
            && (prefix == "0" || !prefix.starts_with('0'))
            && match (ip.parse::<IpAddr>(), prefix.parse::<u8>()) {
                (Ok(ip), Ok(prefix)) => prefix <= bits(ip),
                _ => false,
            }
    });
    CIDR.check(ok)
}

/// [`MANAGED_BY`].
pub fn managed_by(manager: &str, _: &()) -> garde::Result {
    let is_path = |path: &str| {
        let is_of_paths = |c: char| c.is_ascii_alphanumeric() || "/._~%!$&()*+,;=:-".contains(c);
        !path.is_empty() && path.chars().all(is_of_paths)
    };
    let parts = manager.split_once('/');
    let is_it = parts.is_some_and(|(domain, path)| {
        domain.split('.').all(|label| is_label(label, 63)) && is_path(path)
    });
    MANAGED_BY.check(manager.len() <= 63 && is_it)
}
