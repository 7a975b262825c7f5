//! Runs of the simulation.

use trellis_policies::cedar::PolicyLoader;
use trellis_simulation::{Fault, FaultScript, Script, record_panics, run, shrink};

fn policies() -> PolicyLoader {
    PolicyLoader::new().unwrap()
}

#[test]
fn same_seed_gives_the_same_events() {
    let policies = policies();
    for seed in 1..=4 {
        let script = Script::from_seed(seed);
        let (one, other) = (run(&script, &policies, true), run(&script, &policies, true));
        let lines = one.lines.iter().zip(&other.lines);
        for (line, again) in lines {
            assert_eq!(line, again, "seed {seed}");
        }
        assert_eq!(
            (one.hash, one.events),
            (other.hash, other.events),
            "seed {seed}"
        );
    }
    let hash = |seed| run(&Script::from_seed(seed), &policies, false).hash;
    assert_ne!(hash(1), hash(2));
}

#[test]
fn script_is_the_same_after_it_was_stored() {
    for seed in 0..200 {
        let script = Script::from_seed(seed);
        let text = serde_json::to_string(&script).unwrap();
        assert_eq!(serde_json::from_str::<Script>(&text).unwrap(), script);
    }
}

/// The scripts of faults that were found, and mended.
#[test]
fn stored_scripts_have_no_problem() {
    record_panics();
    let policies = policies();
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/scripts");
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let text = std::fs::read(&path).unwrap();
        let script: Script = serde_json::from_slice(&text).unwrap();
        let problems = run(&script, &policies, false).problems;
        assert!(problems.is_empty(), "{}: {problems:#?}", path.display());
    }
}

#[test]
fn shortened_script_keeps_what_its_problem_needs() {
    let mut script = Script::from_seed(3);
    let slow = FaultScript {
        at: 10_000,
        seconds: 5,
        fault: Fault::Slow(500),
    };
    script.faults.push(slow.clone());
    let shortest = shrink(&script, |script| script.faults.contains(&slow));
    assert_eq!(shortest.faults, [slow]);
    assert!(shortest.acts.is_empty());
    assert_eq!((shortest.jobs.len(), shortest.nodes.len()), (1, 1));
    assert_eq!(shortest.replicas, 1);
}
