//! The objects become the policies that decide: all of them at once, changes
//! gathered, and off the threads that others wait on.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tracing::{error, info, warn};
use trellis_policies::cedar::{Loader, ObjectState, Policies};

use crate::world::World;

/// Changes that come together are one.
const GATHER: Duration = Duration::from_millis(100);

/// Keeps the policies that decide up to date, until the process ends.
pub async fn keep_policies(world: Arc<World>, loader: Loader) {
    let loader = Arc::new(loader);
    let set = &world.policies;
    while !set.is_listed() {
        set.changed().await;
    }
    loop {
        let started = Instant::now();
        load(&world, &loader).await;
        // Whoever writes policies all the time has half of one core at most.
        let took = started.elapsed();
        set.changed().await;
        tokio::time::sleep(took.max(GATHER)).await;
    }
}

async fn load(world: &World, loader: &Arc<Loader>) {
    let set = &world.policies;
    let changes = set.changes();
    let objects = set.objects();
    let before = set.active();
    let (loader, previous) = (loader.clone(), before.clone());
    let loaded = tokio::task::spawn_blocking(move || {
        let (policies, _) = loader.load(previous.as_deref(), objects);
        Arc::new(policies)
    });
    let policies = match loaded.await {
        Ok(policies) => policies,
        // What was good stays; the next change is the next try.
        Err(error) => return error!(%error, "the policies could not be loaded"),
    };
    tell(before.as_deref(), &policies);
    set.replace_as_of(changes, policies.clone());
    world.policies_changed(before.as_deref(), &policies);
}

fn tell(before: Option<&Policies>, policies: &Policies) {
    if before.is_some_and(|before| before.hash() == policies.hash()) {
        return;
    }
    let mut objects: usize = 0;
    for verdict in policies.verdicts() {
        objects = objects.saturating_add(1);
        if verdict.state != ObjectState::Active {
            warn!(policy = %verdict.key, state = ?verdict.state, "does not take effect as it stands");
        }
    }
    info!(objects, set = policies.hash(), "other policies decide");
}
