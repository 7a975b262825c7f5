//! The scheduling engine: gangs in, placements out.
//!
//! The engine is a state machine over plain data: no I/O, no Kubernetes types, no clock, no
//! randomness. Its decisions depend only on its inputs, so the operator, `trellis plan`, simulation
//! and tests run the same code.
//!
//! ```
//! use trellis_scheduler::{
//!     Decision, Engine, Gang, GangId, GroupName, Node, NodeName, Queue, QueueName, Resources,
//!     TaskGroup, Time,
//! };
//!
//! let mut engine = Engine::new();
//! for name in ["gpu-0", "gpu-1"] {
//!     let allocatable = Resources::new()
//!         .with("cpu", 96_000)
//!         .with("pods", 110)
//!         .with("nvidia.com/gpu", 8);
//!     engine.apply_node(Node::new(NodeName::new(name), allocatable));
//! }
//! engine.apply_queue(Queue::new(QueueName::new("default")));
//! let request = Resources::new().with("cpu", 8_000).with("nvidia.com/gpu", 8);
//! let workers = TaskGroup::new(GroupName::new("worker"), 2, request, "llm-worker".to_owned());
//! engine.apply_gang(Gang::new(
//!     GangId::new("team-a/llm"),
//!     QueueName::new("default"),
//!     vec![workers],
//! ));
//!
//! let decisions = engine.cycle(Time::from_millis(0));
//! let [Decision::Place { placement, .. }] = decisions.as_slice() else {
//!     panic!("the gang fits");
//! };
//! let nodes: Vec<&str> = placement.iter().map(|(_, _, node)| node.as_str()).collect();
//! assert_eq!(nodes, ["gpu-0", "gpu-1"]);
//!
//! // Nothing has changed, so there is nothing to decide.
//! assert!(engine.cycle(Time::from_millis(1)).is_empty());
//! ```
//!
//! Where to look: `state` holds the live arrays, `queueing` the pending gangs and their obstacles,
//! `limits` the limits outside queue quota. `placement` finds nodes, and `backfill` lets gangs
//! start ahead of gangs that wait for room. `explain` says why a gang cannot start, `forecast`
//! predicts when it starts, and `runtime_predictor` how long runs take. `rank_ring` measures how
//! the ranks of a gang follow a topology. `engine` combines the others.

mod backfill;
mod constraints;
mod decision;
mod engine;
mod explain;
mod forecast;
mod gang;
mod ids;
mod limits;
mod merged_group;
mod moves;
mod node;
mod placement;
mod preemption;
mod provisioning;
mod queue;
mod queueing;
mod quota;
mod rank_ring;
mod request_changes;
mod resources;
mod runtime_predictor;
mod state;
mod time;
mod topology;

pub use backfill::Reservation;
pub use constraints::{
    Constraints, LabelDomain, NodeSelectorOperator, NodeSelectorRequirement, NodeSelectorTerm,
    PreferredSchedulingTerm, Toleration, TolerationOperator,
};
pub use decision::{Decision, PlacementScore, PreemptionReason, TrialPlacement, Victim};
pub use engine::{
    BackOffSnapshot, ChargeSnapshot, DomainTotals, Engine, GangSnapshot, KeptPlaceSnapshot,
    LimitChargeSnapshot, PlaceSnapshot, PlacedStateSnapshot, PodRoomSnapshot, PodSnapshot,
    ProvisioningSnapshot, QueueMemory, QueueUsage, QueueUsageLine, ResourceTotals, Snapshot,
    StoppingGangSnapshot, UsageLagSnapshot,
};
pub use explain::{
    BestDomain, Exclusions, FlavorMismatch, GroupNodeReport, LimitRaise, MatchingNode,
    MissingLabel, MissingLevel, NodeObstacle, NodeRelease, OwnQuota, PermittedNodes,
    ProvisioningObstacle, QuotaRaise, ScarceSlices, ShareComparison, UnadvertisedDevice,
    UnblockingChange, WaitDetail, WaitExplanation, WaitReason, describe_new_nodes,
};
pub use forecast::Forecast;
pub use gang::{Gang, PlacementStrategy, TaskGroup};
pub use ids::{
    FlavorName, GangId, GroupName, LimitName, NodeName, PodKey, QueueName, ResourceName,
    TopologyName,
};
pub use limits::{LimitClosure, LimitDraw, LimitUnit};
pub use merged_group::{GroupPart, Member};
pub use moves::{GangMove, find_moves};
pub use node::{Node, Taint, TaintEffect};
pub use placement::{GroupPlacement, PackingRule, Placement, TaskHistory};
pub use provisioning::{
    FlavorGrowth, NodeRequest, NodeTemplate, Provisioning, ProvisioningPolicy, ProvisioningScope,
};
pub use queue::{
    BorrowWithinPolicy, FairShareVictims, Flavor, FlavorPolicy, FlavorQuotas, GroupFlavors,
    PreemptionPolicy, Queue, QueueCounts, QueueOrder, QueueStop, ReclaimPolicy, ResourceGroup,
    WithinQueuePolicy,
};
pub use quota::{DecayedAmount, FairShare, Quota, UsageDecay, Weight};
pub use rank_ring::{RankRing, RingGroup, RingLevel};
pub use request_changes::{ChangedRequest, RequestChange, find_request_changes};
pub use resources::{AmountOverflow, Resources};
pub use runtime_predictor::RuntimePredictor;
pub use time::Time;
pub use topology::{SliceLayer, Topology, TopologyLevel, TopologyRequest};
