//! The kinds of things that policies speak of, with their attributes: the table
//! that the schema is printed from.

/// One kind of entity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum EntityKind {
    Team,
    Namespace,
    TrainingJob,
    Queue,
    PriorityClass,
    ResourceFlavor,
    Image,
    ServiceAccount,
    Secret,
    Volume,
    Endpoint,
    Privilege,
}

/// One attribute: of a kind, or of the context.
pub(crate) struct EntityAttribute {
    pub(crate) name: &'static str,
    /// Cedar type of the attribute.
    pub(crate) type_: &'static str,
    /// True: it may be absent, and Cedar's strict validation asks for `has`.
    pub(crate) optional: bool,
    pub(crate) description: &'static str,
}

const fn required(name: &'static str, type_: &'static str, about: &'static str) -> EntityAttribute {
    EntityAttribute {
        name,
        type_,
        optional: false,
        description: about,
    }
}

const fn optional(name: &'static str, type_: &'static str, about: &'static str) -> EntityAttribute {
    EntityAttribute {
        name,
        type_,
        optional: true,
        description: about,
    }
}

const NAME: EntityAttribute = required("name", "String", "its name");

impl EntityKind {
    pub(crate) const ALL: [Self; 12] = [
        Self::Team,
        Self::Namespace,
        Self::TrainingJob,
        Self::Queue,
        Self::PriorityClass,
        Self::ResourceFlavor,
        Self::Image,
        Self::ServiceAccount,
        Self::Secret,
        Self::Volume,
        Self::Endpoint,
        Self::Privilege,
    ];

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Team => "Team",
            Self::Namespace => "Namespace",
            Self::TrainingJob => "TrainingJob",
            Self::Queue => "Queue",
            Self::PriorityClass => "PriorityClass",
            Self::ResourceFlavor => "ResourceFlavor",
            Self::Image => "Image",
            Self::ServiceAccount => "ServiceAccount",
            Self::Secret => "Secret",
            Self::Volume => "Volume",
            Self::Endpoint => "Endpoint",
            Self::Privilege => "Privilege",
        }
    }

    pub(crate) const fn description(self) -> &'static str {
        match self {
            Self::Team => "The team of a namespace: the value of its label trellis.dev/team.",
            Self::Namespace => {
                "Who asks: the namespace of the job. Its tags are its labels; a namespace without the label trellis.dev/team is in no team."
            }
            Self::TrainingJob => {
                "A job, \"<namespace>/<name>\". Its tags are its labels; it is in its namespace."
            }
            Self::Queue => "A queue, by name.",
            Self::PriorityClass => "A PriorityClass, by name.",
            Self::ResourceFlavor => "A flavor, by name.",
            Self::Image => "An image, as the job writes it.",
            Self::ServiceAccount => {
                "A ServiceAccount, \"<namespace>/<name>\"; it is in its namespace."
            }
            Self::Secret => {
                "A Secret, \"<namespace>/<name>\"; it is in its namespace. Or what is kept in a store outside the cluster, \"ClusterSecretStore/<store>/<path>\" or \"<namespace>/SecretStore/<store>/<path>\"; that is in no namespace."
            }
            Self::Volume => {
                "A claim, \"<namespace>/claim/<name>\", a ConfigMap, \"<namespace>/configMap/<name>\", or an ephemeral volume, \"<namespace>/ephemeral/<StorageClass>\", with \"default\" where the job names no class; it is in its namespace."
            }
            Self::Endpoint => {
                "The other end of a connection: exactly one of cidr, namespace and service (with namespace)."
            }
            Self::Privilege => {
                "A privilege of a pod: RunAsRoot, privileged, hostNetwork, hostPath, IPC_LOCK and other capabilities, ..."
            }
        }
    }

    /// The kinds that it may be in.
    pub(crate) const fn parents(self) -> &'static [Self] {
        match self {
            Self::Namespace => &[Self::Team],
            Self::TrainingJob | Self::ServiceAccount | Self::Secret | Self::Volume => {
                &[Self::Namespace]
            }
            _ => &[],
        }
    }

    /// True if it has tags, which are labels.
    pub(crate) const fn has_tags(self) -> bool {
        matches!(self, Self::Namespace | Self::TrainingJob)
    }

    pub(crate) const fn attributes(self) -> &'static [EntityAttribute] {
        match self {
            Self::Team => &[],
            Self::Queue => {
                const {
                    &[
                        NAME,
                        required(
                            "selectsNamespace",
                            "Bool",
                            "the queue's namespaceSelector selects the job's namespace",
                        ),
                    ]
                }
            }
            Self::Image => {
                const {
                    &[
                        optional(
                            "registry",
                            "String",
                            "host and port, in lower case; absent: the image names none",
                        ),
                        required("repository", "String", "the path after the registry"),
                        optional("tag", "String", "the tag; absent: the image names none"),
                        optional(
                            "digest",
                            "String",
                            "such as sha256:...; absent: the image names none. With one, the tag says nothing",
                        ),
                    ]
                }
            }
            Self::Secret => {
                const {
                    &[
                        required(
                            "name",
                            "String",
                            "its name; in a store: \"ClusterSecretStore/<store>/<path>\" or \"SecretStore/<store>/<path>\"",
                        ),
                        optional(
                            "store",
                            "{ kind: String, name: String, path: String }",
                            "the store, ClusterSecretStore or SecretStore of the job's namespace, and the path in it; absent: a Secret of the cluster",
                        ),
                    ]
                }
            }
            Self::Volume => {
                const {
                    &[
                        NAME,
                        required("kind", "String", "claim, configMap or ephemeral"),
                    ]
                }
            }
            Self::Endpoint => {
                const {
                    &[
                        optional("cidr", "ipaddr", "a network"),
                        optional("namespace", "String", "the namespace that the pods are in"),
                        optional(
                            "service",
                            "String",
                            "the Service that the pods are behind; absent: every pod of the namespace",
                        ),
                        optional(
                            "ports",
                            "Set<String>",
                            "the ports, such as 443/TCP or 30000-30100/UDP; absent: every port, or those of the service",
                        ),
                        required(
                            "hasPortRange",
                            "Bool",
                            "whether one of the ports is a range",
                        ),
                    ]
                }
            }
            _ => &[NAME],
        }
    }
}

/// Context attributes of every request.
pub(crate) const CONTEXT: [EntityAttribute; 9] = [
    optional(
        "requester",
        "{ user: String, groups: Set<String> }",
        "who submitted the job; absent: nobody knows",
    ),
    required("job", "TrainingJob", "the job, with its name and labels"),
    required("gpus", "Long", "devices of all pods together"),
    required("pods", "Long", "pods of all task groups"),
    required("framework", "String", "PyTorch, ..., None"),
    required("priority", "Long", "the job's priority"),
    optional(
        "runtimeSeconds",
        "Long",
        "deadlines.activeSeconds; absent: no limit",
    ),
    optional(
        "profile",
        "String",
        "name of the RuntimeProfile that the job is compiled with; absent: there is none",
    ),
    required(
        "attempt",
        "Long",
        "the attempt that the job is about to make, from 1",
    ),
];
