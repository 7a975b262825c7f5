//! Loads the policy objects into the active policies, on a blocking thread.
//!
//! The policies of the cluster are loaded separately, and never wait for those of namespaces.
//! Namespaces are loaded one after the other. The namespace that has waited longest comes first.
//! After its load, a namespace pauses for a while, so that a namespace that is edited all the time
//! does not delay the others.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tracing::{error, info, warn};
use trellis_cache::policy::PolicyScope;
use trellis_cache::policy::PolicySet;
use trellis_dispatch::context::Context;
use trellis_machine::threads;
use trellis_policies::cedar::{Policies, PolicyLoader, PolicyObjectState, PolicyPart};

/// Changes within this time are loaded together.
const GATHER: Duration = Duration::from_millis(100);
/// The pause of a namespace is so many times its loading time. So one namespace uses at most a
/// quarter of the loader's time.
const PAUSE_FACTOR: u32 = 3;
/// Pause before the next try after loading a namespace has panicked.
const PANIC_RETRY_PAUSE: Duration = Duration::from_secs(60);

/// Keeps the active policies up to date, until the process ends.
pub async fn maintain_policies(context: Arc<Context>, loader: PolicyLoader) {
    let loader = Arc::new(loader);
    let set = &context.cache.policies;
    while !set.is_listed() {
        set.wait_cluster_change().await;
    }
    let cluster = maintain_cluster_policies(&context, &loader);
    let namespaces = maintain_namespace_policies(&context, &loader);
    tokio::join!(cluster, namespaces);
}

async fn maintain_cluster_policies(context: &Arc<Context>, loader: &Arc<PolicyLoader>) {
    loop {
        let started = Instant::now();
        load_scope(context, loader, &None).await;
        // Policies that change all the time use at most half of one core.
        let duration = started.elapsed();
        context.cache.policies.wait_cluster_change().await;
        tokio::time::sleep(duration.max(GATHER)).await;
    }
}

async fn maintain_namespace_policies(context: &Arc<Context>, loader: &Arc<PolicyLoader>) {
    let set = &context.cache.policies;
    // No decision is possible without the policies of the cluster.
    set.wait_loaded().await;
    let mut pauses = BTreeMap::new();
    loop {
        let namespace = next_namespace(set, &mut pauses).await;
        let started = Instant::now();
        let is_loaded = load_scope(context, loader, &Some(namespace.clone())).await;
        let pause = match is_loaded {
            true => started.elapsed().saturating_mul(PAUSE_FACTOR),
            false => PANIC_RETRY_PAUSE,
        };
        if let Some(until) = Instant::now().checked_add(pause) {
            pauses.insert(namespace, until);
        }
    }
}

/// Waits until a namespace is due, and returns it: the namespace that has waited longest and does
/// not pause.
async fn next_namespace(set: &PolicySet, pauses: &mut BTreeMap<String, Instant>) -> String {
    loop {
        let now = Instant::now();
        pauses.retain(|_, until| *until > now);
        let mut soonest: Option<Instant> = None;
        for (namespace, since) in set.changed_namespaces() {
            let gathered = since.checked_add(GATHER).unwrap_or(since);
            let at = pauses.get(&namespace).copied().unwrap_or(gathered);
            let at = at.max(gathered);
            if at <= now {
                return namespace;
            }
            soonest = Some(soonest.map_or(at, |soonest| soonest.min(at)));
        }
        let changed = set.wait_namespace_change();
        match soonest {
            None => changed.await,
            Some(at) => tokio::select! {
                () = changed => {}
                () = tokio::time::sleep_until(at) => {}
            },
        }
    }
}

/// Loads all current policies of a scope. Returns false if the load failed. Then the last good
/// policies stay active.
async fn load_scope(context: &Context, loader: &Arc<PolicyLoader>, scope: &PolicyScope) -> bool {
    let set = &context.cache.policies;
    let latest = set.latest_change(scope).unwrap_or_default();
    let objects = set.objects(scope);
    let (part_loader, previous, namespace) = (loader.clone(), set.active(), scope.clone());
    let loaded = threads::spawn_blocking(move || {
        part_loader.load_part(previous.as_deref(), namespace.as_deref(), objects)
    });
    let part = match loaded.await {
        Ok(part) => part,
        Err(error) => {
            error!(%error, namespace = scope.as_deref(), "the policies could not be loaded");
            return false;
        }
    };
    let (before, after) = set.update(scope, latest, |active| {
        merge_part(loader, set, active, part)
    });
    log_policies(before.as_deref(), &after, scope);
    context.policies_changed(before.as_deref(), &after);
    true
}

fn merge_part(
    loader: &PolicyLoader,
    set: &PolicySet,
    active: Option<&Policies>,
    part: PolicyPart,
) -> Policies {
    match active {
        Some(active) => active.with_part(part),
        None => loader.load_cluster_first(part, set.namespaces()),
    }
}

fn log_policies(before: Option<&Policies>, after: &Policies, scope: &PolicyScope) {
    if before.is_some_and(|before| before.hash() == after.hash()) {
        return;
    }
    let mut objects: usize = 0;
    for verdict in after.load_results_in(scope.as_deref()) {
        objects = objects.saturating_add(1);
        if verdict.state != PolicyObjectState::Active {
            warn!(policy = %verdict.key, state = ?verdict.state, "does not take effect as it stands");
        }
    }
    let namespace = scope.as_deref();
    info!(
        objects,
        namespace,
        set = after.hash(),
        "other policies decide"
    );
}

#[cfg(test)]
mod tests {
    use trellis_gang::key::Key;

    use super::*;

    fn touch(set: &PolicySet, namespace: &str) {
        set.record_change(&Key::new(namespace, "x"));
    }

    /// Simulates a load of this duration. The busy namespace is edited meanwhile.
    async fn load_next(
        set: &PolicySet,
        pauses: &mut BTreeMap<String, Instant>,
        duration: Duration,
    ) -> String {
        let namespace = next_namespace(set, pauses).await;
        let scope = Some(namespace.clone());
        let latest = set.latest_change(&scope).unwrap();
        tokio::time::sleep(duration).await;
        if namespace == "busy" {
            touch(set, "busy");
        }
        set.pending().mark_loaded(&scope, latest, Instant::now());
        let until = Instant::now()
            .checked_add(duration.saturating_mul(PAUSE_FACTOR))
            .unwrap();
        pauses.insert(namespace.clone(), until);
        namespace
    }

    #[tokio::test(start_paused = true)]
    async fn constantly_edited_namespace_does_not_delay_the_rest() {
        let (context, _heard) = Context::new();
        let (set, mut pauses) = (&context.cache.policies, BTreeMap::new());
        let duration = Duration::from_secs(1);
        touch(set, "busy");
        assert_eq!(load_next(set, &mut pauses, duration).await, "busy");
        for round in 0..9 {
            let name = format!("calm{round}");
            touch(set, &name);
            let began = Instant::now();
            assert_eq!(next_namespace(set, &mut pauses).await, name);
            // Other namespaces wait only for the running load and for the time to collect changes.
            assert!(began.elapsed() <= GATHER, "{:?}", began.elapsed());
            assert_eq!(load_next(set, &mut pauses, Duration::ZERO).await, name);
            assert_eq!(load_next(set, &mut pauses, duration).await, "busy");
        }
        // The busy namespace gets at most a quarter of the time, even if no other namespace is due.
        let began = Instant::now();
        for _ in 0..9 {
            assert_eq!(load_next(set, &mut pauses, duration).await, "busy");
        }
        assert!(
            began.elapsed() >= duration * (1 + PAUSE_FACTOR) * 9,
            "{:?}",
            began.elapsed()
        );
    }

    #[tokio::test(start_paused = true)]
    async fn namespaces_are_loaded_in_the_order_in_which_they_changed() {
        let (context, _heard) = Context::new();
        let (set, mut pauses) = (&context.cache.policies, BTreeMap::new());
        for namespace in ["c", "a", "c", "b", "c"] {
            touch(set, namespace);
        }
        let mut order = Vec::new();
        for _ in 0..3 {
            order.push(load_next(set, &mut pauses, Duration::from_millis(1)).await);
        }
        assert_eq!(order, ["c", "a", "b"]);
        assert!(set.changed_namespaces().is_empty());
    }
}
