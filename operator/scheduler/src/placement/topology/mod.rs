//! Gangs with topology requests.
//!
//! `gang_topology` resolves the requests. `best_fit` compares domains, and `seats` the domains that
//! one group may use. `slices` counts the pods that fit into whole slices, and `domain_counts`
//! counts the pods that domains hold. `group_filler` places one group in one domain or in few, and
//! `even_split` splits it over few. `candidate_domains` lists the domains for a whole gang, `attempt`
//! tries the gang there, and `search` tries every way if groups compete. `rank_order` numbers the
//! pods.

mod attempt;
mod best_fit;
mod candidate_domains;
mod domain_counts;
mod even_split;
mod gang_topology;
mod group_filler;
mod rank_order;
mod search;
mod seats;
mod slices;

pub(super) use attempt::place;
pub(crate) use attempt::place_one_group;
pub(crate) use gang_topology::{GangTopology, GroupSlices, ResolvedRequest, has_request};
pub(super) use rank_order::order_groups;
pub(crate) use search::search;
pub(super) use slices::ResolvedSlices;
pub(crate) use slices::{ResolvedLayer, round_down};
