//! Deletion of pods: the pods that are deleted, and the pauses between repeated requests.

use super::*;

#[test]
fn pods_of_another_job_are_never_deleted() {
    let pods = BTreeMap::from([pod("lost", "another", PodPhase::Running)]);
    for phase in PHASES {
        for desired in all_desired() {
            let step = next_step(phase, &desired, &pods, 0);
            assert!(
                !matches!(step, GangStep::Delete(_)),
                "{phase:?} {desired:?}"
            );
        }
    }
}

#[test]
fn pods_are_deleted_by_force_only_on_lost_nodes() {
    let mut pods = BTreeMap::from([
        pod("lost", "mine", PodPhase::Running),
        pod("well", "mine", PodPhase::Running),
    ]);
    let forced = |step: Step| match step {
        GangStep::Delete(pods) => pods.into_iter().map(|p| (p.uid, p.force)).collect(),
        _ => Vec::new(),
    };
    let lost = ("uid-lost".to_owned(), true);
    let well = ("uid-well".to_owned(), false);
    assert_eq!(
        forced(next_step(
            PHASES[3],
            &DesiredGang::stop(Reason::Suspended),
            &pods,
            0
        )),
        [lost.clone(), well]
    );
    for pod in pods.values_mut() {
        pod.deleting = true;
    }
    assert_eq!(
        forced(next_step(
            PHASES[3],
            &DesiredGang::stop(Reason::Suspended),
            &pods,
            0
        )),
        [lost]
    );
    pods.remove("lost");
    assert_eq!(
        next_step(PHASES[3], &DesiredGang::stop(Reason::Suspended), &pods, 0),
        GangStep::AwaitPods
    );
}

#[test]
fn stray_pod_of_a_placed_gang_is_deleted() {
    let mut pods = BTreeMap::from([
        pod("a", "mine", PodPhase::Running),
        pod("stray", "mine", PodPhase::Running),
    ]);
    pods.get_mut("stray").unwrap().plan = "earlier".to_owned();
    assert_eq!(
        describe_step(&next_step(PHASES[2], &desired_run(1), &pods, 0)),
        "delete stray"
    );
}

#[test]
fn delete_of_a_remaining_pod_is_repeated_with_growing_pauses() {
    let mut pods = BTreeMap::from([
        pod("lost", "mine", PodPhase::Running),
        pod("well", "mine", PodPhase::Running),
    ]);
    let desired = DesiredGang::stop(Reason::Suspended);
    let journal = journal(PodGroupPhase::Unwinding);
    let start = Instant::now();
    let mut deletions = Deletions::default();
    let mut requests = BTreeMap::new();
    // For 200 s the watch stalls and shows no deletion. Then a finalizer keeps both pods.
    for second in 0..400 {
        let clock = start + std::time::Duration::from_secs(second);
        if second == 200 {
            pods.values_mut().for_each(|pod| pod.deleting = true);
        }
        let step = ObservedGang {
            deletions: &deletions,
            clock,
            ..gang(&desired, &journal, &pods)
        }
        .next_step();
        match step {
            GangStep::Delete(requested_pods) => {
                for pod in requested_pods {
                    deletions.record_request(&pod.uid, pod.force, clock);
                    *requests.entry(pod.name).or_insert(0) += 1;
                }
            }
            other => assert_eq!(other, GangStep::AwaitPods),
        }
    }
    // Requests come at 0, 1, 3, 7, 15, 31, 63 and 127 s, and with force also at 255 s.
    assert_eq!(
        requests,
        BTreeMap::from([("lost".to_owned(), 9), ("well".to_owned(), 8)])
    );
}
