//! A pod alone.

use super::*;
use crate::external::single;
use crate::external::single::Single;

#[test]
fn a_pod_alone_is_its_gangs_once_that_has_its_place_and_it_is_bound() {
    let next = |pod: Option<&ExternalPod>, gang_holds, is_of_place, told| {
        Single {
            name: "a",
            pod,
            gang_holds,
            is_of_place,
            told,
            deletions: &Deletions::default(),
            clock: Instant::now(),
        }
        .next()
    };
    let asked = |pod: &ExternalPod, gang_holds| next(Some(pod), gang_holds, false, None);
    let waits = pod("a", json!({}));
    let bound = pod("a", on("n"));
    assert_eq!(asked(&waits, None), single::Step::Enqueue);
    assert_eq!(asked(&waits, Some(true)), single::Step::Enqueue);
    assert_eq!(asked(&waits, Some(false)), single::Step::Forget);
    assert_eq!(asked(&bound, None), single::Step::Hold);
    // The pod holds its node, whether its gang is placed or gone.
    for gang_holds in [true, false] {
        let held = next(Some(&bound), Some(gang_holds), true, None);
        assert_eq!(held, single::Step::Forget, "the gang does it");
        assert_eq!(asked(&bound, Some(gang_holds)), single::Step::Hold);
    }
    let told = |patient| next(Some(&bound), None, false, Some(patient));
    assert!(matches!(told(true), single::Step::Evict(_)));
    assert!(matches!(told(false), single::Step::Delete(_)));
    let theirs = pod("a", json!({"/spec/nodeName": "n"}));
    assert_eq!(
        next(Some(&theirs), None, false, Some(true)),
        single::Step::Forget
    );
    let gated = pod("a", json!({"/spec/schedulingGates": [{"name": "x"}]}));
    assert_eq!(asked(&gated, None), single::Step::Forget);
    assert_eq!(next(None, None, false, None), single::Step::Forget);
}
