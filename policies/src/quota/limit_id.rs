//! One limit, by its name.

use std::fmt;

/// Which of the jobs that a policy counts share one limit.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LimitHolder {
    /// All jobs together.
    Subject,
    /// Jobs of one user.
    Requester(String),
    /// Jobs whose requester is not known, together.
    Unknown,
}

impl LimitHolder {
    /// Reads the holder from status: the inverse of [`Self::requester`].
    #[must_use]
    pub fn from_status(requester: Option<&str>) -> Self {
        match requester {
            None => Self::Subject,
            Some("") => Self::Unknown,
            Some(user) => Self::Requester(user.to_owned()),
        }
    }

    /// The user as status writes it: None for all jobs together, empty if not known.
    #[must_use]
    pub fn requester(&self) -> Option<&str> {
        match self {
            Self::Subject => None,
            Self::Requester(user) => Some(user),
            Self::Unknown => Some(""),
        }
    }
}

/// The quantity that is limited.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LimitedQuantity {
    /// Jobs that are placed.
    RunningJobs,
    /// Jobs that are pending.
    QueuedJobs,
    /// GPU-hours in a window.
    GpuHours,
    /// A resource.
    Resource {
        /// The flavor that the resource comes from. None: any flavor.
        flavor: Option<String>,
        /// Its name.
        resource: String,
        /// The queue whose quota the limit is a share of; usage in other queues does not count.
        /// None: an absolute limit.
        queue: Option<String>,
    },
}

impl fmt::Display for LimitedQuantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RunningJobs => f.write_str("runningJobs"),
            Self::QueuedJobs => f.write_str("queuedJobs"),
            Self::GpuHours => f.write_str("gpuHours"),
            Self::Resource {
                flavor, resource, ..
            } => match flavor {
                Some(flavor) => write!(f, "{flavor}/{resource}"),
                None => f.write_str(resource),
            },
        }
    }
}

/// One limit: of a policy, for one holder, of one thing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LimitId {
    /// Name of the QuotaPolicy.
    pub policy: String,
    /// For whom.
    pub holder: LimitHolder,
    /// Of what.
    pub quantity: LimitedQuantity,
}

/// As messages name it: `quota policy "team-a", nvidia.com/gpu of "alice"`. No two limits have the
/// same name.
impl fmt::Display for LimitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "quota policy {:?}, {}", self.policy, self.quantity)?;
        if let LimitedQuantity::Resource {
            queue: Some(queue), ..
        } = &self.quantity
        {
            write!(f, " of queue {queue:?}")?;
        }
        match &self.holder {
            LimitHolder::Subject => Ok(()),
            LimitHolder::Requester(user) => write!(f, " of {user:?}"),
            LimitHolder::Unknown => f.write_str(" of users that nobody knows"),
        }
    }
}
