//! A pod alone.

use super::*;
use crate::external::single_pod;
use crate::external::single_pod::SinglePod;

#[test]
fn single_pod_is_left_to_its_gang_once_in_its_place() {
    let next = |pod: Option<&ExternalPod>, gang_holds, is_of_place, told| {
        SinglePod {
            name: "a",
            pod,
            gang_is_placed: gang_holds,
            is_in_gang_place: is_of_place,
            eviction_delayable: told,
            deletions: &Deletions::default(),
            clock: Instant::now(),
        }
        .next_step()
    };
    let asked = |pod: &ExternalPod, gang_holds| next(Some(pod), gang_holds, false, None);
    let waits = pod("a", json!({}));
    let bound = pod("a", bound_on("n"));
    assert_eq!(asked(&waits, None), single_pod::SinglePodStep::Enqueue);
    assert_eq!(
        asked(&waits, Some(true)),
        single_pod::SinglePodStep::Enqueue
    );
    assert_eq!(
        asked(&waits, Some(false)),
        single_pod::SinglePodStep::Forget
    );
    assert_eq!(asked(&bound, None), single_pod::SinglePodStep::Hold);
    // The pod holds its node, whether its gang is placed or gone.
    for gang_holds in [true, false] {
        let held = next(Some(&bound), Some(gang_holds), true, None);
        assert_eq!(held, single_pod::SinglePodStep::Forget, "the gang does it");
        assert_eq!(
            asked(&bound, Some(gang_holds)),
            single_pod::SinglePodStep::Hold
        );
    }
    let told = |patient| next(Some(&bound), None, false, Some(patient));
    assert!(matches!(told(true), single_pod::SinglePodStep::Evict(_)));
    assert!(matches!(told(false), single_pod::SinglePodStep::Delete(_)));
    let theirs = pod("a", json!({"/spec/nodeName": "n"}));
    assert_eq!(
        next(Some(&theirs), None, false, Some(true)),
        single_pod::SinglePodStep::Forget
    );
    let gated = pod("a", json!({"/spec/schedulingGates": [{"name": "x"}]}));
    assert_eq!(asked(&gated, None), single_pod::SinglePodStep::Forget);
    assert_eq!(
        next(None, None, false, None),
        single_pod::SinglePodStep::Forget
    );
}
