//! The state of the cluster and of its leader, small enough to be one of millions.

use std::collections::BTreeSet;

use trellis_api::pod_group::PodGroupPhase;

/// Pods of the gang.
pub(super) const PODS: usize = 2;

/// Limits of the search.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// How often another replica takes over.
    pub(super) takeovers: u8,
    /// Writes that the API server carries out late, and that the leader repeats meanwhile.
    pub(super) losses: u8,
    /// Acts of users, kubelets and the clock.
    pub(super) acts: u8,
    /// Plans of the gang.
    pub(super) plans: u8,
    pub(super) fence: Fence,
}

/// The rule by which the API server refuses the writes of an earlier leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fence {
    Present,
    /// Only compare-and-set and the rule that an epoch never falls protect the journal.
    Absent,
}

/// The journal. A plan is a number, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Journal {
    pub(super) phase: Phase,
    pub(super) epoch: u8,
    pub(super) plan: Option<u8>,
    pub(super) is_preempted: bool,
}

/// A phase that can be ordered and hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Phase {
    Pending,
    Committing,
    Placed,
    Unwinding,
    Finished,
}

impl Phase {
    pub(super) fn to_api(self) -> PodGroupPhase {
        match self {
            Self::Pending => PodGroupPhase::Pending,
            Self::Committing => PodGroupPhase::Committing,
            Self::Placed => PodGroupPhase::Placed,
            Self::Unwinding => PodGroupPhase::Unwinding,
            Self::Finished => PodGroupPhase::Finished,
        }
    }

    pub(super) fn from_api(phase: PodGroupPhase) -> Self {
        match phase {
            PodGroupPhase::Pending | PodGroupPhase::Provisioning | PodGroupPhase::Nominated => {
                Self::Pending
            }
            PodGroupPhase::Committing => Self::Committing,
            PodGroupPhase::Placed => Self::Placed,
            PodGroupPhase::Unwinding => Self::Unwinding,
            PodGroupPhase::Finished => Self::Finished,
        }
    }
}

/// A pod of the gang.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Pod {
    /// How many pods had its name before.
    pub(super) incarnation: u8,
    pub(super) plan: u8,
    pub(super) attempt: u8,
    pub(super) has_failed: bool,
    pub(super) is_stopping: bool,
    /// True if its creation was on its way for long. Nothing can keep such a pod from its start;
    /// the leader deletes it.
    pub(super) came_late: bool,
}

impl Pod {
    pub(super) fn is_live(self) -> bool {
        !self.has_failed && !self.is_stopping
    }
}

pub(super) type Pods = [Option<Pod>; PODS];

/// The job: its status, and its user's suspension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Job {
    /// True if the user has suspended the job.
    pub(super) is_suspended: bool,
    pub(super) attempt: u8,
    pub(super) was_placed: bool,
}

/// A request to the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Request {
    Create {
        index: u8,
        plan: u8,
        attempt: u8,
    },
    Delete {
        index: u8,
        incarnation: u8,
    },
    /// A compare-and-set of the journal.
    Journal {
        version: u8,
        journal: Journal,
    },
}

/// When a request reaches the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    AtOnce,
    /// After other requests that were sent later.
    Late,
}

/// The leader. It sees only its cache.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Leader {
    pub(super) epoch: u8,
    /// The plan in the journal when it began to lead.
    pub(super) inherited: Option<u8>,
    pub(super) journal: Journal,
    pub(super) version: u8,
    pub(super) pods: Pods,
    /// The rest of its current task.
    pub(super) task: Vec<Request>,
    /// Deletes that it has asked for: index and incarnation.
    pub(super) asked: BTreeSet<(u8, u8)>,
    /// True if another gang needs the place.
    pub(super) must_leave: bool,
}

impl Leader {
    pub(super) fn see_journal(&mut self, journal: Journal, version: u8) {
        (self.journal, self.version) = (journal, version);
    }
}

/// The whole state.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct World {
    pub(super) journal: Journal,
    /// Number of writes of the journal.
    pub(super) version: u8,
    pub(super) pods: Pods,
    /// Pods that had each name.
    pub(super) incarnations: [u8; PODS],
    /// The attempt of each plan.
    pub(super) plans: Vec<u8>,
    /// Plans whose deadline has passed.
    pub(super) expired: BTreeSet<u8>,
    pub(super) job: Job,
    pub(super) leader: Leader,
    /// Requests on their way, with the epochs of their senders. Each may arrive at any time, or
    /// never.
    pub(super) late: BTreeSet<(u8, Request)>,
    pub(super) takeovers: u8,
    pub(super) losses: u8,
    pub(super) acts: u8,
}

impl World {
    /// Returns a gang that waits, and its first leader.
    pub(super) fn new() -> Self {
        let journal = Journal {
            phase: Phase::Pending,
            epoch: 0,
            plan: None,
            is_preempted: false,
        };
        let mut world = Self {
            journal,
            version: 0,
            pods: [None; PODS],
            incarnations: [0; PODS],
            plans: Vec::new(),
            expired: BTreeSet::new(),
            job: Job {
                is_suspended: false,
                attempt: 1,
                was_placed: false,
            },
            leader: Leader {
                epoch: 0,
                inherited: None,
                journal,
                version: 0,
                pods: [None; PODS],
                task: Vec::new(),
                asked: BTreeSet::new(),
                must_leave: false,
            },
            late: BTreeSet::new(),
            takeovers: 0,
            losses: 0,
            acts: 0,
        };
        world.elect();
        world
    }

    /// Starts a new leader, which lists everything.
    pub(super) fn elect(&mut self) {
        self.leader = Leader {
            epoch: self.leader.epoch + 1,
            inherited: self.journal.plan,
            journal: self.journal,
            version: self.version,
            pods: self.pods,
            task: Vec::new(),
            asked: BTreeSet::new(),
            must_leave: false,
        };
    }

    /// Returns true if all pods of the placed plan live, and the user wants them.
    pub(super) fn is_whole_and_wanted(&self) -> bool {
        self.journal.phase == Phase::Placed && self.is_complete(self.journal, &self.pods)
    }

    /// Returns true if the leader sees all pods of its own plan, and the user wants them.
    fn leader_sees_whole_gang(&self) -> bool {
        let leader = &self.leader;
        let is_own = leader.journal.epoch == leader.epoch
            || leader.journal.phase == Phase::Placed
            || leader.journal.plan == leader.inherited;
        is_own && self.is_complete(leader.journal, &leader.pods)
    }

    fn is_complete(&self, journal: Journal, pods: &Pods) -> bool {
        let Some(plan) = journal.plan else {
            return false;
        };
        let is_live = |pod: &Option<Pod>| pod.is_some_and(|pod| pod.plan == plan && pod.is_live());
        !self.job.is_suspended
            && self.plans[usize::from(plan)] == self.job.attempt
            && pods.iter().all(is_live)
    }

    /// Checks a write of the journal that the leader has decided on.
    ///
    /// # Errors
    /// If the decision breaks a promise by what the leader sees.
    pub(super) fn check_decision(&self, after: Journal) -> Result<(), String> {
        let leader = &self.leader;
        let is_given_up = after.phase == Phase::Unwinding && leader.journal.phase != after.phase;
        if is_given_up && self.leader_sees_whole_gang() && !leader.must_leave {
            return Err("the leader gives up a gang that it sees whole".to_owned());
        }
        let is_cleared = leader.journal.phase == Phase::Unwinding && after.plan.is_none();
        if is_cleared && leader.pods.iter().any(Option::is_some) {
            return Err("the leader frees a place whose pods it sees".to_owned());
        }
        Ok(())
    }

    /// Lets the API server carry out a request. Returns true if it accepts the request.
    ///
    /// # Errors
    /// If the effect breaks a promise.
    pub(super) fn carry_out(
        &mut self,
        sender: u8,
        request: Request,
        arrival: Arrival,
        fence: Fence,
    ) -> Result<bool, String> {
        let is_old = sender < self.leader.epoch;
        if is_old && fence == Fence::Present {
            return Ok(false);
        }
        match request {
            Request::Create {
                index,
                plan,
                attempt,
            } => {
                let place = usize::from(index);
                if self.pods[place].is_some() {
                    return Ok(false);
                }
                if plan >= u8::try_from(self.plans.len()).unwrap() {
                    return Err("a pod is created for a plan that no journal has".to_owned());
                }
                let others = self.pods.iter().flatten();
                let is_earlier =
                    |pod: Pod| pod.is_live() && !pod.came_late && pod.attempt < attempt;
                if arrival == Arrival::AtOnce && others.copied().any(is_earlier) {
                    return Err("a pod starts beside a live pod of an earlier attempt".to_owned());
                }
                self.pods[place] = Some(Pod {
                    incarnation: self.incarnations[place],
                    plan,
                    attempt,
                    has_failed: false,
                    is_stopping: false,
                    came_late: arrival == Arrival::Late,
                });
                self.incarnations[place] += 1;
            }
            Request::Delete { index, incarnation } => {
                let is_whole = self.is_whole_and_wanted();
                let Some(pod) = &mut self.pods[usize::from(index)] else {
                    return Ok(false);
                };
                if pod.incarnation != incarnation {
                    return Ok(false);
                }
                if is_whole && !pod.is_stopping {
                    return Err("a pod of a whole gang is deleted".to_owned());
                }
                pod.is_stopping = true;
            }
            Request::Journal { version, journal } => {
                if version != self.version || journal.epoch < self.journal.epoch {
                    return Ok(false);
                }
                let leaves = journal.phase == Phase::Unwinding;
                let is_asked = self.leader.must_leave && !is_old;
                if leaves && self.is_whole_and_wanted() && !is_asked {
                    return Err("a whole gang leaves, and nothing asks for it".to_owned());
                }
                self.journal = journal;
                self.version += 1;
            }
        }
        Ok(true)
    }
}
