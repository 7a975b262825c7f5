//! Pods that have failed and are started again while the others go on.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use trellis_api::Reason;
use trellis_api::job::{LastFailure, RestartAction, RestartScope, TaskGroup};

use super::failed::{Cost, backoff};
use super::{Evaluation, Next, after};
use crate::controller::failure::{Blame, Fault};
use crate::controller::rules;

/// Seconds before a pod outside the gang that has failed is created again: it costs the job
/// nothing, and must not go round and round.
const OUTSIDE_BACKOFF: i64 = 60;

/// What is started again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    Group,
    Pod,
}

/// A fault whose pod is started again while the others go on.
#[derive(Clone, Debug)]
pub(super) struct Recovery {
    fault: Fault,
    scope: Scope,
    /// It counts against a limit, if its blame does.
    counts: bool,
}

impl Recovery {
    pub(super) fn fault(&self) -> &Fault {
        &self.fault
    }
}

impl Evaluation<'_> {
    /// Whether others can go on without the pod that this happened to. None: they cannot, or
    /// are not to.
    pub(super) fn recovery(&self, fault: &Fault) -> Option<Recovery> {
        let (group, index) = (self.o.spec.group(&fault.group)?, fault.index?);
        let rule = rules::matching(self.rules(), fault).map(|(_, action)| action);
        if rule == Some(RestartAction::Fail) {
            return None;
        }
        let is_surplus = index >= group.gang_size();
        let counts = rule != Some(RestartAction::RestartWithoutCounting)
            && group.is_in_gang()
            && !(is_surplus && fault.blame == Blame::Cluster);
        let recovery = |scope| Recovery {
            fault: fault.clone(),
            scope,
            counts,
        };
        if is_surplus {
            return Some(recovery(Scope::Pod));
        }
        let scope = match rule {
            Some(RestartAction::RestartPod) => Scope::Pod,
            Some(RestartAction::RestartGroup) => Scope::Group,
            _ => match self.scope(group, index) {
                RestartScope::Pod => Scope::Pod,
                RestartScope::Group => Scope::Group,
                RestartScope::Gang | RestartScope::Never => return None,
            },
        };
        // Where it was it must be able to be again, and the others of its group too.
        let passes = matches!(
            fault.reason,
            Reason::PodFailed | Reason::OutOfMemory | Reason::PodDisrupted
        );
        let nodes = self.members().filter(|pod| match scope {
            Scope::Group => pod.group == group.name,
            Scope::Pod => pod.group == group.name && pod.index == index,
        });
        let mut nodes = nodes.filter_map(|pod| pod.node.as_deref());
        let own = fault.node.as_deref();
        let stays = own.is_none_or(|node| self.is_open(node)) && nodes.all(|n| self.is_open(n));
        (passes && stays).then(|| recovery(scope))
    }

    fn is_open(&self, node: &str) -> bool {
        !(self.o.lost)(node) && (self.o.unhealthy)(node).is_none() && (self.o.open)(node)
    }

    /// What a failure of that pod restarts where no rule says. At rank 0 the others of an
    /// elastic group meet: without it they cannot go on.
    fn scope(&self, group: &TaskGroup, index: u32) -> RestartScope {
        let restart = self.o.spec.restart.as_ref();
        let leads = trellis_compiler::leader_group(self.o.spec) == Some(&group.name) && index == 0;
        let default = match group.is_elastic() && !leads {
            true => RestartScope::Pod,
            false => RestartScope::Gang,
        };
        restart.and_then(|r| r.scope).unwrap_or(default)
    }

    /// They are started again, which counts once, however many they are. Gives what ends the
    /// job, if it may not be.
    pub(super) fn recover(mut self, recoveries: &[Recovery]) -> Result<Self, Box<Next>> {
        let counted = |blame: Blame| {
            let mut those = recoveries.iter().filter(move |r| r.counts);
            those.find(|r| r.fault.blame == blame)
        };
        let dearest = counted(Blame::Job).or_else(|| counted(Blame::Cluster));
        let Some(told) = dearest.or_else(|| recoveries.first()) else {
            return Ok(self);
        };
        let restart = self.o.spec.restart.clone().unwrap_or_default();
        let mut wait = 0;
        if let Some(dearest) = dearest {
            match self.charge(dearest.fault.blame, &restart) {
                Cost::Used(used) if dearest.fault.blame == Blame::Job => {
                    wait = backoff(&restart, u32::try_from(used).unwrap_or(u32::MAX));
                }
                Cost::Used(_) => {}
                Cost::Over { words, reason } => {
                    let message = format!("{}; {words}", dearest.fault.message);
                    return Err(Box::new(self.fail(reason, message)));
                }
            }
        }
        for refused in recoveries.iter().map(Recovery::fault) {
            self.exclude(refused);
        }
        let fault = &told.fault;
        self.status.last_failure = Some(LastFailure {
            pod: fault.pod.clone(),
            node: fault.node.clone(),
            exit_code: fault.exit_code,
            reason: fault.word.clone(),
            last_line: fault.last_line.clone(),
            attempt: self.attempt(),
            hurried: false,
            time: Time(self.o.now),
        });
        let not_before = (wait > 0).then(|| Time(after(self.o.now, wait)));
        let outside = Some(Time(after(self.o.now, OUTSIDE_BACKOFF)));
        let mut awaited = self.awaited_pods();
        awaited.round = awaited.round.saturating_add(1);
        for (group, pods) in self.doomed(recoveries) {
            let in_gang = self.o.spec.group(&group).is_some_and(TaskGroup::is_in_gang);
            let not_before = if in_gang { &not_before } else { &outside };
            awaited.await_pods(&group, &pods, not_before.clone());
        }
        self.set_awaited(awaited);
        Ok(self)
    }

    /// Pods that are to go, by group.
    fn doomed(&self, recoveries: &[Recovery]) -> BTreeMap<String, BTreeSet<u32>> {
        let mut doomed: BTreeMap<String, BTreeSet<u32>> = BTreeMap::new();
        for recovery in recoveries {
            let pods = doomed.entry(recovery.fault.group.clone()).or_default();
            pods.extend(recovery.fault.index);
            if recovery.scope == Scope::Group {
                let group = self.o.spec.group(&recovery.fault.group);
                pods.extend(0..group.map_or(0, TaskGroup::gang_size));
                let others = self.members().filter(|p| p.group == recovery.fault.group);
                pods.extend(others.map(|pod| pod.index));
            }
        }
        doomed
    }
}
