//! Limits of QuotaPolicies.

use super::{job, scenario, simulate_text, trellis};

fn quota_policy(spec: &str) -> String {
    format!(
        "---\napiVersion: trellis.dev/v1alpha1\nkind: QuotaPolicy\nmetadata: {{name: q}}\nspec: {spec}\n"
    )
}

#[test]
fn jobs_are_submitted_by_the_named_requester() {
    let events = format!(
        "  - {{at: 0s, apply: {}, runtime: 9s}}\n  - {{at: 1s, expect: {{placed: [a]}}}}\n",
        job("a", 1)
    );
    let of_ada = quota_policy("{subject: {requester: ada}, limits: {gpusPerJob: 4}}");
    let text = [scenario(&events), of_ada].concat();
    let bob = simulate_text(&text, &["--as", "bob"]);
    assert_eq!((bob.code, bob.err.as_str()), (0, ""), "{}", bob.out);
    let ada = simulate_text(&text, &["--as", "ada"]);
    assert_eq!(ada.code, 1);
    let expected = "refused    default/a QuotaPolicyExceeded: ";
    assert!(ada.out.contains(expected), "{}", ada.out);
    // The limit may apply to the job, so a note reports the unknown requester.
    let unnamed = simulate_text(&text, &[]);
    assert_eq!(unnamed.code, 1);
    assert!(
        unnamed.err.contains("name the user with --as"),
        "{}",
        unnamed.err
    );
    let none = trellis(&["simulate", "--workload", "gangs", "--as", "ada"], "");
    assert_eq!(none.code, 2);
}

/// The usage window of one hour consists of parts of 75 s.
/// The first part of the usage leaves the window at 3,675 s, so the second job starts then.
#[test]
fn gpu_hours_are_used_and_recovered() {
    let events = format!(
        "  - {{at: 0s, apply: {}, runtime: 450s}}
  - {{at: 10s, apply: {}, runtime: 10s}}
  - {{at: 450s, expect: {{pending: [b]}}}}
  - {{at: 3674s, expect: {{pending: [b]}}}}
  - {{at: 3675s, expect: {{placed: [b]}}}}
",
        job("a", 1),
        job("b", 2)
    );
    let hours = quota_policy("{subject: {}, limits: {gpuHours: {limit: 1, windowHours: 1}}}");
    let text = [scenario(&events), hours].concat();
    let run = simulate_text(&text, &["-o", "jsonl"]);
    let lines = run.lines();
    assert_eq!(run.code, 0, "{lines:?}");
    let pending = lines.iter().filter(|l| l["event"] == "waiting");
    let pending: Vec<_> = pending.map(|l| l["reason"].as_str().unwrap()).collect();
    assert!(
        pending[1].starts_with("QuotaPolicyExceeded: "),
        "{pending:?}"
    );
    assert!(
        pending[1].ends_with("its 1 GPU hour is used, and nothing starts until 3675 s"),
        "{pending:?}"
    );
    // Without the limit the second job starts when the first one ends.
    let run = simulate_text(&scenario(&events), &["-o", "jsonl"]);
    assert_eq!(run.code, 1);
}

/// Only the limit can change anything for four days.
#[test]
fn simulation_waits_for_a_limit_with_a_long_window() {
    let events = format!(
        "  - {{at: 0s, apply: {}, runtime: 450s}}
  - {{at: 10s, apply: {}, runtime: 10s}}
",
        job("a", 1),
        job("b", 2)
    );
    let hours = quota_policy("{subject: {}, limits: {gpuHours: {limit: 1, windowHours: 96}}}");
    let run = simulate_text(&[scenario(&events), hours].concat(), &["-o", "jsonl"]);
    let lines = run.lines();
    let tuples = super::event_tuples(&lines);
    let ends = |(_, event, job): &(f64, &str, &str)| *event == "finished" && *job == "default/b";
    let end = tuples.iter().find(|tuple| ends(tuple));
    assert!(
        end.is_some_and(|(at, ..)| *at > 3.0 * 86_400.0),
        "{tuples:?}"
    );
}

/// A job that a full limit refuses is Refused, not pending.
#[test]
fn full_deny_limit_refuses_the_job_until_it_has_room() {
    let events = format!(
        "  - {{at: 0s, apply: {}, runtime: 10s}}
  - {{at: 1s, apply: {}, runtime: 10s}}
  - {{at: 2s, expect: {{placed: [a], pending: []}}}}
  - {{at: 10s, expect: {{placed: [b]}}}}
",
        job("a", 1),
        job("b", 1)
    );
    let policy = quota_policy("{subject: {}, enforcement: Deny, limits: {runningJobs: 1}}");
    let text = [scenario(&events), policy].concat();
    let run = simulate_text(&text, &["-o", "jsonl"]);
    let lines = run.lines();
    assert_eq!(run.code, 0, "{lines:?}");
    let tuples = super::event_tuples(&lines);
    assert_eq!(tuples[1], (1.0, "refused", "default/b"), "{tuples:?}");
}
