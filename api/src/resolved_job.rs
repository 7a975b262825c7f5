//! From a [`ValidatedJob`] to a [`ResolvedJob`], in which every task group has CPU and memory.

use std::fmt;

use crate::job::TaskGroup;
use crate::{Quantity, ResourcesPerGpu, ValidatedJob, ValidatedProfile};

/// The object that states an amount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AmountSource {
    /// The task group itself.
    Group,
    /// The RuntimeProfile of this name, for each GPU.
    Profile(String),
    /// The queue of this name, for each GPU.
    Queue(String),
}

impl fmt::Display for AmountSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Group => f.write_str("the task group"),
            Self::Profile(name) => write!(f, "RuntimeProfile {name:?}"),
            Self::Queue(name) => write!(f, "queue {name:?}"),
        }
    }
}

/// An amount for one pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodAmount {
    /// Amount for each pod.
    pub quantity: Quantity,
    /// The object that states the amount.
    pub source: AmountSource,
}

/// CPU and memory of each pod of a task group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComputeResources {
    /// CPU, in cores.
    pub cpu: PodAmount,
    /// Memory, in bytes.
    pub memory: PodAmount,
}

/// An amount for each GPU, and the TrainingQueue that states it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueAmount {
    /// Amount for each GPU.
    pub quantity: Quantity,
    /// Name of the TrainingQueue: the queue of the job, or one above it.
    pub queue: String,
}

/// CPU and memory for each GPU, as a job's queue and the queues above it state them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueResources {
    /// CPU, in cores.
    pub cpu: Option<QueueAmount>,
    /// Memory, in bytes.
    pub memory: Option<QueueAmount>,
}

impl QueueResources {
    /// Returns the amounts that one queue states.
    #[must_use]
    pub fn from_queue(queue: &str, stated: Option<&ResourcesPerGpu>) -> Self {
        let of = |quantity: Option<&Quantity>| {
            quantity.map(|quantity| QueueAmount {
                quantity: quantity.clone(),
                queue: queue.to_owned(),
            })
        };
        Self {
            cpu: of(stated.and_then(|stated| stated.cpu.as_ref())),
            memory: of(stated.and_then(|stated| stated.memory.as_ref())),
        }
    }

    /// Fills missing amounts from a queue above.
    #[must_use]
    pub fn or(self, above: Self) -> Self {
        Self {
            cpu: self.cpu.or(above.cpu),
            memory: self.memory.or(above.memory),
        }
    }

    /// Returns the amounts without their queues, or None if there are none.
    #[must_use]
    pub fn per_gpu(&self) -> Option<ResourcesPerGpu> {
        let of = |amount: &Option<QueueAmount>| amount.as_ref().map(|a| a.quantity.clone());
        let stated = ResourcesPerGpu {
            cpu: of(&self.cpu),
            memory: of(&self.memory),
        };
        (!stated.is_empty()).then_some(stated)
    }
}

/// A [`ValidatedJob`] in which every task group has CPU and memory. The sources, in order, are the
/// group itself, its RuntimeProfile and its queue; the last two state amounts for each GPU. Only
/// [`Self::new`] creates one.
#[derive(Clone, Debug, PartialEq)]
pub struct ResolvedJob {
    job: ValidatedJob,
    /// Amounts by group, in the order of the spec.
    compute: Vec<ComputeResources>,
    queue: QueueResources,
}

impl ResolvedJob {
    /// Resolves a job with the amounts of its profile and its queues. `queue_name` is the job's own
    /// queue.
    ///
    /// # Errors
    /// Every task group that lacks CPU or memory.
    pub fn new(
        job: ValidatedJob,
        profile: Option<&ValidatedProfile>,
        queue_name: &str,
        queue: QueueResources,
    ) -> Result<Self, MissingResources> {
        let mut groups = Vec::new();
        let mut compute = Vec::new();
        for (at, group) in job.spec().task_groups.iter().enumerate() {
            let found = AmountDefaults {
                profile,
                queue: &queue,
            };
            match (found.cpu(group), found.memory(group)) {
                (Some(cpu), Some(memory)) => compute.push(ComputeResources { cpu, memory }),
                (cpu, memory) => groups.push(GroupMissingResources {
                    index: at,
                    cpu: cpu.is_none(),
                    memory: memory.is_none(),
                }),
            }
        }
        if groups.is_empty() {
            return Ok(Self {
                job,
                compute,
                queue,
            });
        }
        Err(MissingResources {
            groups,
            profile: profile.map(|profile| profile.name().to_owned()),
            queue: queue_name.to_owned(),
        })
    }

    /// Returns the validated job.
    #[must_use]
    pub fn job(&self) -> &ValidatedJob {
        &self.job
    }

    /// Returns the task groups, in the order of the spec, each with its CPU and memory.
    pub fn groups(&self) -> impl Iterator<Item = (&TaskGroup, &ComputeResources)> {
        self.job.spec().task_groups.iter().zip(&self.compute)
    }

    /// Returns the amounts for each GPU from the job's queue and the queues above it.
    #[must_use]
    pub fn queue_resources(&self) -> &QueueResources {
        &self.queue
    }

    /// Returns the job with only the task groups of a stage ([`ValidatedJob::into_stage`]).
    #[must_use]
    pub fn into_stage(self, stage: u32) -> Self {
        let names: Vec<String> = self.groups().map(|(group, _)| group.name.clone()).collect();
        let job = self.job.into_stage(stage);
        let of_stage = |name: &String| job.spec().task_groups.iter().any(|g| g.name == *name);
        let compute = names.iter().zip(self.compute);
        let compute = compute.filter(|(name, _)| of_stage(name));
        let compute = compute.map(|(_, compute)| compute).collect();
        Self {
            job,
            compute,
            queue: self.queue,
        }
    }
}

/// Sources of a task group's amounts, in order, after its own fields.
struct AmountDefaults<'a> {
    profile: Option<&'a ValidatedProfile>,
    queue: &'a QueueResources,
}

impl AmountDefaults<'_> {
    fn cpu(&self, group: &TaskGroup) -> Option<PodAmount> {
        let of = |stated: &ResourcesPerGpu| stated.cpu.clone();
        self.amount(group, group.resources.cpu(), of, &self.queue.cpu)
    }

    fn memory(&self, group: &TaskGroup) -> Option<PodAmount> {
        let of = |stated: &ResourcesPerGpu| stated.memory.clone();
        self.amount(group, group.resources.memory(), of, &self.queue.memory)
    }

    fn amount(
        &self,
        group: &TaskGroup,
        own: Option<&Quantity>,
        of: impl Fn(&ResourcesPerGpu) -> Option<Quantity>,
        queue: &Option<QueueAmount>,
    ) -> Option<PodAmount> {
        if let Some(own) = own {
            return Some(PodAmount {
                quantity: own.clone(),
                source: AmountSource::Group,
            });
        }
        let of_profile = || {
            let profile = self.profile?;
            let stated = of(profile.spec().resources_per_gpu.as_ref()?)?;
            Some((stated, AmountSource::Profile(profile.name().to_owned())))
        };
        let of_queue = || {
            let stated = queue.as_ref()?;
            let by = AmountSource::Queue(stated.queue.clone());
            Some((stated.quantity.clone(), by))
        };
        let gpus = Some(group.gpus()).filter(|gpus| *gpus > 0)?;
        let (stated, by) = of_profile().or_else(of_queue)?;
        // An unreadable amount breaks a rule of its object, and counts as absent.
        let quantity = stated.multiply(gpus).ok()?;
        Some(PodAmount {
            quantity,
            source: by,
        })
    }
}

/// The task groups of a job that lack CPU or memory, and the objects that could state them. Never
/// empty.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct MissingResources {
    groups: Vec<GroupMissingResources>,
    profile: Option<String>,
    queue: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct GroupMissingResources {
    index: usize,
    cpu: bool,
    memory: bool,
}

/// Formats field, rule and fix of each group.
impl fmt::Display for MissingResources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let queue = &self.queue;
        for (i, group) in self.groups.iter().enumerate() {
            if i > 0 {
                f.write_str("; ")?;
            }
            let (field, rule, fix) = match (group.cpu, group.memory) {
                (true, false) => (".limits.cpu", "is required: state it", ".cpu"),
                (false, _) => (".limits.memory", "is required: state it", ".memory"),
                (true, true) => (".limits", "cpu and memory are required: state them", ""),
            };
            let at = group.index;
            write!(
                f,
                "spec.taskGroups[{at}].resources{field}: {rule}, or resourcesPerGPU{fix} in "
            )?;
            match &self.profile {
                Some(profile) => write!(f, "RuntimeProfile {profile:?}")?,
                None => f.write_str("a RuntimeProfile")?,
            }
            write!(f, " or queue {queue:?}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
