//! A generated workload: gangs that arrive, run and end. The recorded workloads have either no ends
//! (openb) or no priorities and one queue per pool (Helios).
//!
//! The generator uses only integers, so that every machine generates the same workload.

use std::time::Duration;

use trellis_api::job::Restart;
use trellis_scheduler::{
    BorrowWithinPolicy, Gang, GangId, GroupName, Node, PlacementStrategy, PreemptionPolicy, Queue,
    QueueName, QueueOrder, Quota, ReclaimPolicy, ResourceName, Resources, TaskGroup, Time,
    Topology, TopologyLevel, TopologyName, TopologyRequest, WithinQueuePolicy,
};

use super::pools::{GPU, Pool};
use super::random::Random;
use super::runner::{AutoscalerSettings, ScriptChange, ScriptJob, SimulationScript};

/// Number of users. Each submits mostly jobs of one size and runtime.
const USERS: usize = 60;
/// Runtime of the shortest jobs, in seconds.
const MIN_RUNTIME: u64 = 60;
/// Greatest number of doublings of the shortest runtime: up to eight and a half hours.
const MAX_OCTAVES: u32 = 8;
/// Grace period of pods.
const GRACE: Duration = Duration::from_secs(30);
const ROOT_QUEUE: &str = "all";
/// The levels of the topology: labels of nodes.
const BLOCK: &str = "block";
/// The finer topology level, whose domains the summary counts.
pub const RACK: &str = "rack";
/// Number of nodes of a rack.
const RACK_NODES: u32 = 8;
/// Number of nodes of a block: four racks.
const BLOCK_NODES: u32 = 32;
/// Cores for each GPU, of nodes and of jobs, in thousandths.
const MILLICORES_PER_GPU: i64 = 12_000;
/// Each queue with its share of the jobs and its share of the GPUs, both in percent.
const QUEUES: [(&str, usize, i64); 3] = [
    ("production", 20, 40),
    ("research", 50, 40),
    ("batch", 30, 20),
];

/// Parameters of a generated workload.
#[derive(Clone, Debug)]
pub struct GangWorkload {
    /// The nodes.
    pub pool: Pool,
    /// Number of jobs.
    pub jobs: usize,
    /// GPU time that the jobs ask for, as a fraction of the capacity while they arrive.
    pub load: f64,
    /// Seed of the random generator.
    pub seed: u64,
    /// Queue order, which determines whether other jobs may pass the head.
    pub order: QueueOrder,
    /// Percentage of gangs that must be in one rack or, if a gang needs more nodes, in
    /// one block.
    pub close_percent: u8,
    /// Percentage of the other gangs that use the cores of as many GPUs, but no GPUs. Above 0, cores
    /// are limited.
    pub cpu_percent: u8,
    /// True: gangs without a topology request are spread. It is the rule of kube-scheduler, which
    /// prefers the least allocated nodes.
    pub spread: bool,
    /// How the pool grows and shrinks. None: all nodes exist from the start.
    pub growth: Option<PoolGrowth>,
}

/// How the pool of a generated workload grows and shrinks.
///
/// New nodes have no known rack, so no gang can require one.
#[derive(Clone, Debug)]
pub struct PoolGrowth {
    /// Nodes that always exist.
    pub min_nodes: u32,
    /// How other nodes come and leave, up to the size of the pool.
    pub settings: AutoscalerSettings,
}

/// Draws a row with a probability in proportion to its share.
fn draw_row<T: Copy>(random: &mut Random, rows: &[(usize, T)]) -> Option<T> {
    let all = rows.iter().map(|(share, _)| share).sum();
    let mut remaining = random.next_below(all);
    for (share, row) in rows {
        if remaining < *share {
            return Some(*row);
        }
        remaining = remaining.saturating_sub(*share);
    }
    None
}

/// Draws the number of pods and the GPUs of each pod. A job takes a part of a node, or 1 to 64
/// nodes.
fn draw_size(random: &mut Random, node: i64) -> (u32, i64) {
    let part = |divisor: i64| node.checked_div(divisor).unwrap_or(0).max(1);
    let sizes = [
        (16, (1, 1)),
        (12, (1, part(4))),
        (12, (1, part(2))),
        (25, (1, node)),
        (15, (2, node)),
        (9, (4, node)),
        (5, (8, node)),
        (3, (16, node)),
        (2, (32, node)),
        (1, (64, node)),
    ];
    draw_row(random, &sizes).unwrap_or((1, 1))
}

/// Draws the number of doublings of the runtime. Each further doubling has a probability of 60 %,
/// so the runtimes have the tail of a Pareto distribution with index 0.74: a few jobs cause most of
/// the work.
fn draw_octave(random: &mut Random) -> u32 {
    (0..MAX_OCTAVES)
        .find(|_| random.next_below(10) >= 6)
        .unwrap_or(MAX_OCTAVES)
}

/// Draws a runtime uniformly from its octave, in milliseconds.
fn draw_runtime(random: &mut Random, octave: u32) -> Duration {
    let minimum = MIN_RUNTIME
        .saturating_mul(1_000)
        .saturating_mul(1_u64.checked_shl(octave).unwrap_or(1));
    let extra = random.next_below(usize::try_from(minimum).unwrap_or(usize::MAX));
    Duration::from_millis(minimum.saturating_add(u64::try_from(extra).unwrap_or(0)))
}

struct SimulatedUser {
    octave: u32,
    size: (u32, i64),
}

impl GangWorkload {
    /// Returns the nodes with their topology, three queues below one parent, and the jobs in the
    /// order of their arrival.
    #[must_use]
    pub fn to_script(&self) -> SimulationScript {
        let mut script = SimulationScript::new();
        let start = Time::default();
        let topology = Topology {
            name: TopologyName::new("network"),
            levels: [BLOCK, RACK].map(TopologyLevel::from_label).to_vec(),
        };
        script.add(start, ScriptChange::Topology(topology));
        let fixed = self
            .growth
            .as_ref()
            .map_or(u32::MAX, |growth| growth.min_nodes);
        let all = u32::try_from(self.pool.nodes).unwrap_or(u32::MAX);
        for (number, node) in (0..fixed).zip(self.pool.to_nodes()) {
            let mut node = with_rack_labels(node, (number, all));
            if self.cpu_percent > 0 {
                node.allocatable = with_cores(&node.allocatable);
            }
            script.add(start, ScriptChange::Node(node));
        }
        if let Some(growth) = &self.growth {
            let flavor = self.pool.growing_flavor();
            let settings = growth.settings.clone();
            let autoscaler = ScriptChange::Autoscaler(flavor.name.clone(), settings);
            script.add(start, autoscaler);
            script.add(start, ScriptChange::Flavor(flavor));
        }
        for queue in self.build_queues() {
            script.add(start, ScriptChange::Queue(queue));
        }
        let mut random = Random::new(self.seed);
        let users: Vec<SimulatedUser> = (0..USERS)
            .map(|_| SimulatedUser {
                octave: draw_octave(&mut random),
                size: draw_size(&mut random, self.pool.gpus),
            })
            .collect();
        let mut jobs: Vec<ScriptJob> = (0..self.jobs)
            .filter_map(|number| self.build_job(number, &users, &mut random))
            .collect();
        // A separate generator keeps sizes, runtimes and arrivals the same for every
        // `close_percent`.
        let mut random = Random::new(self.seed.wrapping_add(1));
        for job in &mut jobs {
            if random.next_below(100) < usize::from(self.close_percent) {
                job.gang.topology = Some(self.topology_request(&job.gang));
            }
        }
        let gap = self.mean_gap(&jobs);
        let mut at = start;
        for job in &mut jobs {
            // The gap is uniform between zero and twice the mean.
            let later = random.next_below(gap.saturating_mul(2).saturating_add(1));
            at = at.plus_millis(i64::try_from(later).unwrap_or(i64::MAX));
            job.gang.submitted = at;
        }
        self.use_cores(&mut jobs);
        for job in jobs.iter_mut().filter(|job| job.gang.topology.is_none()) {
            if self.spread {
                job.gang.strategy = PlacementStrategy::Spread;
            }
        }
        for job in jobs {
            script.add(job.gang.submitted, ScriptChange::Job(Box::new(job)));
        }
        script
    }

    /// Adds cores to all jobs, and takes the GPUs from a share of those without a topology request.
    fn use_cores(&self, jobs: &mut [ScriptJob]) {
        if self.cpu_percent == 0 {
            return;
        }
        // A separate generator keeps the other draws the same for every `cpu_percent`.
        let mut random = Random::new(self.seed.wrapping_add(2));
        for job in jobs {
            let draw = random.next_below(100);
            let needs_gpus = job.gang.topology.is_some() || draw >= usize::from(self.cpu_percent);
            for group in &mut job.gang.groups {
                group.request = with_cores(&group.request);
                if !needs_gpus {
                    group.request = group.request.clone().with(GPU, 0);
                }
            }
        }
    }

    /// Requests the finest level at which one domain has enough nodes. A larger gang prefers one
    /// block.
    fn topology_request(&self, gang: &Gang) -> TopologyRequest {
        let gpus: f64 = gang.groups.iter().map(group_gpus).sum();
        let fits = |nodes: u32| gpus <= f64::from(nodes) * self.pool.gpus as f64;
        match (fits(RACK_NODES), fits(BLOCK_NODES)) {
            (true, _) => TopologyRequest::required(RACK),
            (false, true) => TopologyRequest::required(BLOCK),
            (false, false) => TopologyRequest::preferred(BLOCK),
        }
    }

    /// Returns the mean time between two arrivals that produces the load, in milliseconds.
    fn mean_gap(&self, jobs: &[ScriptJob]) -> usize {
        let work = |job: &ScriptJob| {
            let gpus: f64 = job.gang.groups.iter().map(group_gpus).sum();
            gpus * job.runtime.unwrap_or_default().as_millis() as f64
        };
        let work: f64 = jobs.iter().map(work).sum();
        let all = self.pool.nodes.saturating_mul(self.pool.gpus) as f64;
        let gap = work / (all * self.load.max(f64::EPSILON)) / jobs.len().max(1) as f64;
        // The cast saturates at the limits of usize.
        gap as usize
    }

    fn build_queues(&self) -> Vec<Queue> {
        let all = self.pool.nodes.saturating_mul(self.pool.gpus);
        let mut queues = vec![Queue::new(QueueName::new(ROOT_QUEUE))];
        for (name, _, percent) in QUEUES {
            let nominal = all.saturating_mul(percent).checked_div(100).unwrap_or(0);
            let quota = |resource: &str, nominal: i64| {
                let quota = Quota {
                    nominal,
                    ..Quota::default()
                };
                (ResourceName::new(resource), quota)
            };
            let mut quotas = vec![quota(GPU, nominal)];
            if self.cpu_percent > 0 {
                quotas.push(quota("cpu", nominal.saturating_mul(MILLICORES_PER_GPU)));
            }
            let queue = Queue::new(QueueName::new(name));
            let queue = match self.growth {
                None => queue.with_quotas(quotas),
                Some(_) => self.pool.growing_queue(queue, quotas.into_iter().collect()),
            };
            queues.push(Queue {
                parent: Some(QueueName::new(ROOT_QUEUE)),
                order: self.order,
                preemption: PreemptionPolicy {
                    within_queue: WithinQueuePolicy::LowerPriority,
                    reclaim: ReclaimPolicy::Any,
                    borrow_within: BorrowWithinPolicy::Never,
                },
                ..queue
            });
        }
        queues
    }

    fn build_job(
        &self,
        number: usize,
        users: &[SimulatedUser],
        random: &mut Random,
    ) -> Option<ScriptJob> {
        let user_index = random.next_below(users.len());
        let user = users.get(user_index)?;
        // Most runs repeat the usual runtime of their user. Some end early because of an error.
        let octave = match random.next_below(10) {
            0..=6 => user.octave,
            7 => 0,
            _ => draw_octave(random),
        };
        let (pods, gpus) = if random.next_below(10) < 7 {
            user.size
        } else {
            draw_size(random, self.pool.gpus)
        };
        let shares = QUEUES.map(|(name, jobs, _)| (jobs, name));
        let queue = draw_row(random, &shares)?;
        let priority = draw_row(random, &[(80, 0), (15, 10), (5, 100)])?;
        let runtime = draw_runtime(random, octave);
        // Runtime estimates of users are up to ten times too long.
        let guess = draw_row(random, &[(2, 1), (3, 2), (3, 5), (2, 10)])?;
        let name = format!("job-{number:06}");
        let request = Resources::new().with(GPU, gpus);
        let group = TaskGroup {
            constraints: Pool::constraints(&self.pool.name),
            ..TaskGroup::new(
                GroupName::new("worker"),
                pods,
                request,
                format!("{name}-worker"),
            )
        };
        let gang = Gang {
            priority,
            provisions: true,
            runtime: Some(runtime.saturating_mul(guess)),
            grace: GRACE,
            ..Gang::new(
                GangId::new(format!("{queue}/{name}")),
                QueueName::new(queue),
                vec![group],
            )
        };
        Some(ScriptJob {
            gang,
            runtime: Some(runtime),
            limit: None,
            gpu_hour_limits: Vec::new(),
            surplus: Vec::new(),
            restart: Restart::default(),
            prediction_key: format!("user-{user_index:02}"),
        })
    }
}

/// Adds the labels of its block and rack to a node. Neighbours by name are in different racks, as on
/// most clusters. Otherwise a scheduler that knows no racks would fill one after another by name.
fn with_rack_labels(mut node: Node, (number, all): (u32, u32)) -> Node {
    let racks = all.div_ceil(RACK_NODES).max(1);
    let rack = number.checked_rem(racks).unwrap_or(0);
    let racks_of_block = BLOCK_NODES / RACK_NODES;
    for (level, prefix, size) in [(BLOCK, "b", racks_of_block), (RACK, "r", 1)] {
        let domain = rack.checked_div(size).unwrap_or(0);
        node.labels
            .insert(level.to_owned(), format!("{prefix}{domain:03}"));
    }
    node
}

/// Adds the cores of its GPUs to a request or a node.
fn with_cores(resources: &Resources) -> Resources {
    let gpus = resources.get(&ResourceName::new(GPU));
    let cores = gpus.saturating_mul(MILLICORES_PER_GPU);
    resources.clone().with("cpu", cores)
}

fn group_gpus(group: &TaskGroup) -> f64 {
    let each = group.request.get(&ResourceName::new(GPU));
    each as f64 * f64::from(group.count)
}

#[cfg(test)]
mod tests;
