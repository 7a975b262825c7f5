//! Quotas of Volcano's queues.

use serde_json::{Value, json};

use super::import_text;
use super::queues::{note_texts, volcano};

/// Volcano's webhook refuses these amounts, but a file may still contain them.
#[test]
fn contradictory_amounts_are_noted() {
    for (spec, expected) in [
        (
            "{deserved: {cpu: 4}, capability: {cpu: 2}}",
            "spec.capability.cpu: \"2\" is less than deserved",
        ),
        (
            "{deserved: {cpu: 4}, guarantee: {resource: {cpu: 8}}}",
            "spec.guarantee.resource.cpu: \"8\" is more than the queue's quota",
        ),
    ] {
        let notes = note_texts(&import_text(&volcano("a", spec))[0]);
        assert!(notes.iter().any(|n| n.starts_with(expected)), "{notes:?}");
    }
}

/// Returns the quota of `cpu` of each created queue: nominal, borrowing limit, lending limit.
fn cpu_quotas(text: &str) -> Vec<[Value; 3]> {
    let imported = import_text(text);
    let objects = imported.iter().flat_map(|document| &document.objects);
    let quotas = objects.filter_map(|object| {
        let queue = serde_json::to_value(object).unwrap();
        let groups = queue["spec"].get("resourceGroups")?;
        let quota = groups[0]["flavors"][0]["resources"][0].clone();
        let keys = ["nominalQuota", "borrowingLimit", "lendingLimit"];
        Some(keys.map(|key| quota[key].clone()))
    });
    quotas.collect()
}

#[test]
fn quota_of_a_volcano_parent_excludes_those_of_its_children() {
    let child = |name: &str, spec: &str| volcano(name, &format!("{{parent: p, {spec}}}"));
    let children = child("a", "deserved: {cpu: 4}, guarantee: {resource: {cpu: 1}}")
        + &child("b", "deserved: {cpu: 3}, capability: {cpu: 5}");
    let none = Value::Null;
    let of_children = [
        [json!("4"), none.clone(), json!("3")],
        [json!("3"), json!("2"), none.clone()],
    ];
    for (spec, expected) in [
        ("deserved: {cpu: 10}, capability: {cpu: 16}", ["3", "6", ""]),
        ("deserved: {cpu: 10}", ["3", "", ""]),
        // With only a limit, the limit is the quota.
        ("capability: {cpu: 9}", ["2", "0", ""]),
        // The children and the limit bound the quota.
        ("deserved: {cpu: 5}, capability: {cpu: 8}", ["0", "1", ""]),
        ("deserved: {cpu: 5}, capability: {cpu: 6}", ["0", "0", ""]),
        ("deserved: {cpu: 10}, capability: {cpu: 8}", ["1", "0", ""]),
        // The guarantee is one of the whole tree.
        (
            "deserved: {cpu: 10}, guarantee: {resource: {cpu: 2}}",
            ["3", "", "8"],
        ),
    ] {
        let text = volcano("p", &format!("{{{spec}}}")) + &children;
        let expected = expected.map(|amount| match amount {
            "" => Value::Null,
            amount => json!(amount),
        });
        let mut all = vec![expected];
        all.extend(of_children.clone());
        assert_eq!(cpu_quotas(&text), all, "{spec}");
    }
    for (spec, key) in [
        ("deserved: {cpu: 5}, capability: {cpu: 8}", "deserved"),
        ("deserved: {cpu: 5}, capability: {cpu: 6}", "capability"),
    ] {
        let text = volcano("p", &format!("{{{spec}}}")) + &children;
        let notes = note_texts(&import_text(&text)[0]);
        let path = format!("spec.{key}.cpu: ");
        let has_note = |note: &String| note.starts_with(&path) && note.contains("its full quota");
        let count = notes.iter().filter(|note| has_note(note)).count();
        assert_eq!(count, 1, "{notes:?}");
    }
}

/// Volcano's root queue is the parent of queues that name none.
#[test]
fn quota_of_the_volcano_root_excludes_that_of_all_queues() {
    let text = volcano("root", "{capability: {cpu: 64}}")
        + &volcano("a", "{deserved: {cpu: 16}, capability: {cpu: 32}}")
        + &volcano("b", "{deserved: {cpu: 8}}");
    let none = Value::Null;
    assert_eq!(
        cpu_quotas(&text),
        [
            [json!("40"), json!("0"), none.clone()],
            [json!("16"), json!("16"), none.clone()],
            [json!("8"), none.clone(), none],
        ]
    );
}

/// In Volcano, a queue without `deserved` deserves its guarantee.
#[test]
fn volcano_limit_below_a_quota_is_no_quota() {
    let text = volcano("p", "{deserved: {cpu: 8}, capability: {cpu: 16}}")
        + &volcano("a", "{parent: p, capability: {cpu: 12}}")
        + &volcano(
            "b",
            "{parent: p, capability: {cpu: 12}, guarantee: {resource: {cpu: 2}}}",
        )
        + &volcano("c", "{parent: a, deserved: {cpu: 3}}");
    let none = Value::Null;
    assert_eq!(
        cpu_quotas(&text),
        [
            [json!("3"), json!("8"), none.clone()],
            [json!("0"), json!("9"), none.clone()],
            [json!("2"), json!("10"), json!("0")],
            [json!("3"), none.clone(), none],
        ]
    );
    let imported = import_text(&text);
    for (at, expected) in [(0, false), (1, true), (2, true), (3, false)] {
        let notes = note_texts(&imported[at]);
        let is_noted = notes
            .iter()
            .any(|note| note.contains("only limits cpu, because a queue above has the quota"));
        assert_eq!(is_noted, expected, "{notes:?}");
    }
}
