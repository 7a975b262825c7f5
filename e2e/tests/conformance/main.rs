//! The simulated API server answers as the real one: each script runs on both, and all answers and
//! events of watches are compared.
//!
//! A script is a list of requests (`scripts/*.yaml`). `NS` stands for its namespace, and
//! `$name/path` for a field of an earlier answer. A difference is a bug of the simulated server
//! until shown otherwise. Messages are for people: codes, reasons and causes are compared.

mod script;
mod servers;

use std::collections::BTreeMap;

use serde_json::{Value, json};
use trellis_e2e::answers::{Normalizer, list_differences};
use trellis_e2e::control_plane::{
    Component, ControlPlane, ControlPlaneOptions, Kubelets, ProcessSignal,
};

use crate::script::{Script, Step};
use crate::servers::{Answer, RealServer, Server, SimulatedServer};

/// A custom kind with rules of each sort.
const WIDGET_CRD: &str = include_str!("widgets.yaml");

/// All scripts, by file.
const SCRIPTS: &[(&str, &str)] = &[
    ("admission", include_str!("scripts/admission.yaml")),
    ("creates", include_str!("scripts/creates.yaml")),
    ("custom_kinds", include_str!("scripts/custom_kinds.yaml")),
    ("defaults", include_str!("scripts/defaults.yaml")),
    ("deletes", include_str!("scripts/deletes.yaml")),
    ("lists", include_str!("scripts/lists.yaml")),
    ("pods", include_str!("scripts/pods.yaml")),
    ("reviews", include_str!("scripts/reviews.yaml")),
    ("updates", include_str!("scripts/updates.yaml")),
    ("watches", include_str!("scripts/watches.yaml")),
];

/// Maximum number of runs of a script. A script is repeated if other clients write to the real server
/// meanwhile.
const MAX_ATTEMPTS: u32 = 5;

#[tokio::test]
async fn simulated_server_answers_as_the_real_one() {
    let options = || ControlPlaneOptions {
        kubelets: Kubelets::None,
        manifests: vec![WIDGET_CRD.to_owned()],
        ..ControlPlaneOptions::default()
    };
    let control_plane = ControlPlane::shared_with(options).await.unwrap();
    // No controller acts on the objects of the scripts.
    control_plane
        .signal(Component::ControllerManager, ProcessSignal::Stop)
        .unwrap();
    let mut real = RealServer::new(control_plane.client());
    let mut simulated = SimulatedServer::new(WIDGET_CRD);
    let only = std::env::var("TRELLIS_SCRIPT").unwrap_or_default();
    let (mut count, mut differences) = (0, Vec::new());
    for (file, text) in SCRIPTS {
        for script in script::parse(text).unwrap_or_else(|error| panic!("{file}: {error}")) {
            let name = format!("{file}: {}", script.script);
            if !name.contains(&only) {
                continue;
            }
            count += 1;
            for attempt in 1.. {
                let namespace = format!("c{}-{count}-{attempt}", std::process::id());
                let expected = run(&mut real, &script, &namespace).await;
                let found = run(&mut simulated, &script, &namespace).await;
                // The real server renews its own leases every few seconds, and a list shows the
                // revision of such a write.
                let foreign_write = expected.revisions != found.revisions;
                let lines = compare(&name, &script, &expected.answers, &found.answers);
                if lines.is_empty() || !foreign_write || attempt == MAX_ATTEMPTS {
                    differences.extend(lines);
                    break;
                }
            }
        }
    }
    println!("{count} scripts");
    assert!(count > 0, "no script is named {only:?}");
    assert!(
        differences.is_empty(),
        "{} differences\n{}",
        differences.len(),
        differences.join("\n")
    );
}

/// The result of one run of a script.
struct Run {
    answers: Vec<Value>,
    /// The number of revisions from the creation of the namespace to the end of the script.
    revisions: u64,
}

/// Runs a script in a namespace of its own.
async fn run(server: &mut impl Server, script: &Script, namespace: &str) -> Run {
    let mut normalizer = Normalizer::new(namespace);
    let mut saved = BTreeMap::new();
    let setup = [
        (
            "/api/v1/namespaces".to_owned(),
            json!({"metadata": {"name": namespace}}),
        ),
        (
            format!("/api/v1/namespaces/{namespace}/serviceaccounts"),
            json!({"metadata": {"name": "default"}, "automountServiceAccountToken": false}),
        ),
    ];
    let mut first = None;
    for (path, body) in setup {
        let step = Step::post(&path, body);
        let answer = server.send(&step).await;
        assert_eq!(answer.code, 201, "{}", answer.body);
        first.get_or_insert_with(|| revision_of(&answer.body));
    }
    let mut answers = Vec::new();
    for step in &script.steps {
        let step = step.resolve(namespace, &saved);
        normalizer.notice_request(&step.body);
        let answer = server.send(&step).await;
        if let Some(name) = &step.save {
            saved.insert(name.clone(), answer.body.clone());
        }
        let Answer { code, body } = answer;
        answers.push(json!({"code": code, "body": normalizer.normalize(body)}));
    }
    let last = Step::get(&format!("/api/v1/namespaces/{namespace}/configmaps"));
    let last = revision_of(&server.send(&last).await.body);
    Run {
        answers,
        revisions: last - first.expect("the namespace has a revision"),
    }
}

fn revision_of(object: &Value) -> u64 {
    let revision = object.pointer("/metadata/resourceVersion");
    let revision = revision.and_then(Value::as_str).expect("a revision");
    revision.parse().expect("a revision is a number")
}

fn compare(name: &str, script: &Script, expected: &[Value], found: &[Value]) -> Vec<String> {
    let steps = script.steps.iter().zip(expected.iter().zip(found));
    let differing = steps
        .enumerate()
        .filter(|(_, (_, (expected, found)))| expected != found);
    differing
        .map(|(index, (step, (expected, found)))| {
            let lines = list_differences(expected, found);
            let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
            format!("{name}, step {}: {step}\n{}", index + 1, lines.join("\n"))
        })
        .collect()
}
