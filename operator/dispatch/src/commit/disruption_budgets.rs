//! Checks before the first eviction whether a PodDisruptionBudget would postpone any eviction.
//!
//! The budgets are read from the API server for each nomination, because nominations are rare and a
//! cache may be stale. A namespace without budgets costs one request. In other namespaces, each pod
//! that a budget selects costs one more dry run.

use std::collections::{BTreeMap, BTreeSet};

use futures::{StreamExt, stream};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::ResourceExt;
use kube::api::ListParams;
use kube::core::{Selector, SelectorExt};
use trellis_api::names;
use trellis_api::pod_group::NominatedVictim;
use trellis_gang::external::ExternalGangRef;
use trellis_gang::key::Key;
use trellis_gang::observed::{ExternalPod, PodPhase, PodView, SlimCondition, SlimPod};
use trellis_gang::{engine, external};

use super::Committer;
use crate::commands::{EvictionResult, WriteError};
use crate::task_outcome::ProtectedVictim;

/// Dry runs of one nomination in flight at once.
const MAX_CONCURRENT_DRY_RUNS: usize = 32;

/// A pod whose eviction a budget may forbid. Budgets do not apply to a pod that has ended or does
/// not run yet (kube-apiserver, eviction.go).
#[derive(Clone, Debug, PartialEq, Eq)]
struct LeavingPod {
    job: Key,
    /// The gang, or the pod itself if it leaves alone.
    victim: Key,
    name: String,
    uid: String,
    labels: BTreeMap<String, String>,
    ready: bool,
}

/// The parts of a PodDisruptionBudget that count here.
#[derive(Debug)]
struct DisruptionBudget {
    name: String,
    /// None: the budget selects no pod, or its selector is invalid.
    selector: Option<Selector>,
    allowed: usize,
}

impl Committer {
    /// Returns the first of these victims that a budget does not allow to leave now.
    ///
    /// # Errors
    /// If the API server does not answer now.
    pub(super) async fn find_protected_victim(
        &self,
        victims: &[NominatedVictim],
    ) -> Result<Option<ProtectedVictim>, WriteError> {
        let mut namespaces: BTreeMap<&str, Vec<&NominatedVictim>> = BTreeMap::new();
        for victim in victims {
            let here = namespaces.entry(&victim.namespace).or_default();
            here.push(victim);
        }
        for (namespace, victims) in namespaces {
            let all = ListParams::default();
            let budgets: Vec<PodDisruptionBudget> = self.commands.list(namespace, &all).await?;
            if budgets.is_empty() {
                continue;
            }
            let budgets: Vec<DisruptionBudget> =
                budgets.iter().map(DisruptionBudget::from_budget).collect();
            let external_pods = victims.iter().any(|victim| external_unit(victim).is_some());
            let filter = match external_pods {
                true => all,
                false => all.labels(&format!("{}={}", names::MANAGED_BY, names::MANAGER)),
            };
            let pods: Vec<SlimPod> = self.commands.list(namespace, &filter).await?;
            let leaving = leaving_pods(&pods, &victims);
            if let Some(kept) = find_victim_over_budget(&budgets, &leaving) {
                return Ok(Some(kept));
            }
            let selected = leaving
                .iter()
                .filter(|leaver| budgets.iter().any(|budget| budget.selects(leaver)));
            let mut trials = Vec::new();
            for leaver in selected {
                trials.push(self.dry_run_eviction(namespace, leaver));
            }
            let mut answers = stream::iter(trials).buffered(MAX_CONCURRENT_DRY_RUNS);
            while let Some(answer) = answers.next().await {
                if let Some(kept) = answer? {
                    return Ok(Some(kept));
                }
            }
        }
        Ok(None)
    }

    async fn dry_run_eviction(
        &self,
        namespace: &str,
        pod: &LeavingPod,
    ) -> Result<Option<ProtectedVictim>, WriteError> {
        let tried = self
            .commands
            .evict(namespace, &pod.name, &pod.uid, None, true);
        Ok(match tried.await? {
            EvictionResult::Started | EvictionResult::Gone => None,
            EvictionResult::Postponed(why) => Some(ProtectedVictim {
                victim: pod.victim.clone(),
                message: format!(
                    "pod {:?} of job \"{}\" may not be evicted: {why}",
                    pod.name, pod.job
                ),
            }),
        })
    }
}

/// Returns the pods of these victims to which budgets apply.
fn leaving_pods(pods: &[SlimPod], victims: &[&NominatedVictim]) -> Vec<LeavingPod> {
    let mut leaving: Vec<LeavingPod> = Vec::new();
    let mut known = BTreeSet::new();
    for victim in victims {
        let job = Key::new(&victim.namespace, &victim.name);
        if let Some(unit) = external_unit(victim) {
            let external_pods = pods
                .iter()
                .filter_map(|pod| Some((pod, ExternalPod::from_pod(pod)?)));
            let leave = external_pods.filter(|(pod, external)| match &unit {
                ExternalGangRef::Group(group) => external.group() == Some(&*group.name),
                ExternalGangRef::Pod(alone) => {
                    pod.name_any() == *alone.name && external.uid == victim.uid
                }
            });
            let runs = |external: &ExternalPod| {
                let counts = external.charged_queue().is_some();
                counts && external.phase == PodPhase::Running && !external.deleting
            };
            for (pod, external) in leave.filter(|(_, external)| runs(external)) {
                if known.insert(external.uid.clone()) {
                    leaving.push(leaving_pod(&job, &job, pod, external.uid));
                }
            }
            continue;
        }
        for pod in pods {
            let Some((of, view)) = PodView::from_pod(pod) else {
                continue;
            };
            let runs = view.phase == PodPhase::Running && !view.deleting;
            let leaves = engine::is_pod_of_victim(victim, &view.group, view.index);
            if leaves
                && of == job
                && view.job_uid == victim.uid
                && runs
                && known.insert(view.uid.clone())
            {
                let victim = engine::victim_key(victim).unwrap_or_else(|| job.clone());
                leaving.push(leaving_pod(&job, &victim, pod, view.uid));
            }
        }
    }
    leaving
}

/// Returns the external pods that are to leave. None: the victim is a job.
fn external_unit(victim: &NominatedVictim) -> Option<ExternalGangRef> {
    external::parse_gang_key(&Key::new(&victim.namespace, &victim.name))
}

fn leaving_pod(job: &Key, victim: &Key, pod: &SlimPod, uid: String) -> LeavingPod {
    let ready = |c: &&SlimCondition| c.type_ == "Ready";
    let ready = pod.status.conditions.iter().find(ready);
    LeavingPod {
        job: job.clone(),
        victim: victim.clone(),
        name: pod.name_any(),
        uid,
        labels: pod.labels().clone(),
        ready: ready.is_some_and(|c| c.status == "True"),
    }
}

/// Returns the first victim that exceeds a budget's allowed evictions. Dry runs do not show this: a
/// budget may allow each of two evictions but not both.
fn find_victim_over_budget(
    budgets: &[DisruptionBudget],
    leaving: &[LeavingPod],
) -> Option<ProtectedVictim> {
    budgets.iter().find_map(|budget| {
        let mut healthy = leaving.iter().filter(|l| l.ready && budget.selects(l));
        let one_too_many = healthy.nth(budget.allowed)?;
        let affected = leaving.iter().filter(|l| l.ready && budget.selects(l));
        let message = format!(
            "PodDisruptionBudget {:?} allows {} disruptions where {} pods would have to leave, those of job \"{}\" among them",
            budget.name,
            budget.allowed,
            affected.count(),
            one_too_many.job
        );
        Some(ProtectedVictim {
            victim: one_too_many.victim.clone(),
            message,
        })
    })
}

impl DisruptionBudget {
    fn from_budget(budget: &PodDisruptionBudget) -> Self {
        let selector = budget.spec.as_ref().and_then(|spec| spec.selector.clone());
        let status = budget.status.as_ref();
        let allowed = status.and_then(|s| s.disruptions_allowed).unwrap_or(0);
        Self {
            name: format!(
                "{}/{}",
                budget.namespace().unwrap_or_default(),
                budget.name_any()
            ),
            selector: selector.and_then(|selector| selector.try_into().ok()),
            allowed: usize::try_from(allowed).unwrap_or(0),
        }
    }

    fn selects(&self, pod: &LeavingPod) -> bool {
        self.selector
            .as_ref()
            .is_some_and(|selector| selector.matches(&pod.labels))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use trellis_api::pod_group::VictimReason;

    use super::*;

    fn budget(name: &str, selector: Value, allowed: i64) -> DisruptionBudget {
        let budget: PodDisruptionBudget = serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": "ns"},
            "spec": {"selector": selector},
            "status": {"disruptionsAllowed": allowed, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0},
        }))
        .unwrap();
        DisruptionBudget::from_budget(&budget)
    }

    fn pod(name: &str, job: &str, phase: &str, ready: bool) -> SlimPod {
        serde_json::from_value(json!({
            "metadata": {"name": name, "namespace": "ns", "uid": name,
                "labels": {"job": job, "all": "yes"},
                "ownerReferences": [{"apiVersion": "trellis.dev/v1alpha1", "kind": "TrainingJob",
                    "name": job, "uid": format!("uid-{job}"), "controller": true}]},
            "status": {"phase": phase, "conditions": [{"type": "Ready", "status": if ready {"True"} else {"False"}}]},
        }))
        .unwrap()
    }

    fn victim(name: &str) -> NominatedVictim {
        NominatedVictim {
            namespace: "ns".to_owned(),
            name: name.to_owned(),
            uid: format!("uid-{name}"),
            pod: None,
            pods: None,
            plan: String::new(),
            because: VictimReason::Borrows,
        }
    }

    #[test]
    fn external_victims_are_checked_against_budgets_like_jobs() {
        let external = |name: &str, group: &str, phase: &str| -> SlimPod {
            serde_json::from_value(json!({
                "metadata": {"name": name, "namespace": "ns", "uid": name,
                    "annotations": {"trellis.dev/placed-in": "q"},
                    "labels": {"trellis.dev/pod-group": group}},
                "spec": {"schedulerName": "trellis", "nodeName": "n"},
                "status": {"phase": phase, "conditions": [{"type": "Ready", "status": "True"}]},
            }))
            .unwrap()
        };
        let pods = [
            external("a-0", "a", "Running"),
            external("a-1", "a", "Pending"),
            external("b-0", "b", "Running"),
            pod("a", "a", "Running", true),
            external("alone", "", "Running"),
        ];
        let victim_named = |name: &str, uid: &str| NominatedVictim {
            name: name.to_owned(),
            uid: uid.to_owned(),
            ..victim(name)
        };
        let leaving_names = |victim: &NominatedVictim| {
            let leaving = leaving_pods(&pods, &[victim]);
            leaving
                .into_iter()
                .map(|l| (l.name, l.victim.to_string()))
                .collect::<Vec<_>>()
        };
        let group = victim_named("PodGroup/a", "uid");
        assert_eq!(
            leaving_names(&group),
            [("a-0".to_owned(), "ns/PodGroup/a".to_owned())]
        );
        let alone = victim_named("Pod/alone", "alone");
        assert_eq!(
            leaving_names(&alone),
            [("alone".to_owned(), "ns/Pod/alone".to_owned())]
        );
        assert_eq!(leaving_names(&victim_named("Pod/alone", "another")), []);
    }

    #[test]
    fn budget_counts_the_pods_of_all_victims_together() {
        let pods = [
            pod("a-0", "a", "Running", true),
            pod("a-1", "a", "Running", false),
            pod("b-0", "b", "Running", true),
            pod("b-1", "b", "Pending", false),
            pod("c-0", "c", "Running", true),
        ];
        let (a, b) = (victim("a"), victim("b"));
        let leaving = leaving_pods(&pods, &[&a, &b]);
        let names: Vec<_> = leaving.iter().map(|l| l.name.as_str()).collect();
        assert_eq!(names, ["a-0", "a-1", "b-0"]);
        let all = json!({"matchLabels": {"all": "yes"}});
        let keeps = |budgets: &[DisruptionBudget]| {
            find_victim_over_budget(budgets, &leaving).map(|k| k.victim.to_string())
        };
        assert_eq!(keeps(&[]), None);
        assert_eq!(keeps(&[budget("two", all.clone(), 2)]), None);
        assert_eq!(
            keeps(&[budget("one", all.clone(), 1)]).as_deref(),
            Some("ns/b")
        );
        assert_eq!(keeps(&[budget("none", all, 0)]).as_deref(), Some("ns/a"));
        // The budgets select other pods, all pods, and no pods.
        let of_c = json!({"matchExpressions": [{"key": "job", "operator": "In", "values": ["c"]}]});
        assert_eq!(keeps(&[budget("c", of_c, 0)]), None);
        assert_eq!(
            keeps(&[budget("empty", json!({}), 0)]).as_deref(),
            Some("ns/a")
        );
        assert_eq!(keeps(&[budget("absent", Value::Null, 0)]), None);
        let said = find_victim_over_budget(&[budget("one", json!({}), 1)], &leaving).unwrap();
        assert_eq!(
            said.message,
            "PodDisruptionBudget \"ns/one\" allows 1 disruptions where 2 pods would have to leave, those of job \"ns/b\" among them"
        );
    }
}
