//! The rights that the chart's roles grant.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use trellis_api::crds;
use trellis_e2e::helm::Helm;
use trellis_e2e::operator::PLACEHOLDER_NAMESPACE;

use crate::fixtures::{OTHER_NAMESPACE, all_enabled_values, object_key};

fn role_rules(objects: &[Value]) -> Vec<(String, Vec<Value>)> {
    let roles = objects.iter().filter(|object| {
        let kind = object["kind"].as_str();
        kind.is_some_and(|kind| kind == "Role" || kind == "ClusterRole")
    });
    roles
        .map(|role| {
            let rules = role["rules"].as_array().cloned().unwrap_or_default();
            (object_key(role), rules)
        })
        .collect()
}

fn string_list<'a>(rule: &'a Value, field: &str) -> Vec<&'a str> {
    let words = rule[field].as_array().into_iter().flatten();
    words.filter_map(Value::as_str).collect()
}

/// Values that enable every part, also the operator's own certificates.
fn with_own_certificates() -> Value {
    let mut values = all_enabled_values();
    values["certificates"]["source"] = json!("operator");
    values
}

/// The operator has rights only to the Secrets of certificates that it issues itself.
pub(crate) fn test_certificate_rights(helm: &Helm) -> Result<()> {
    let own = ["trellis-endpoint", "trellis-webhook"];
    for (values, expected) in [
        (json!({}), &own[..]),
        (json!({"certificates": {"source": "certManager"}}), &[]),
        (json!({"endpoint": {"tlsSecret": "x"}}), &own[1..]),
        (json!({"visibility": {"enabled": false}}), &own[1..]),
        (json!({"webhook": {"enabled": false}}), &own[..1]),
    ] {
        let mut named = BTreeSet::new();
        for (_, rules) in role_rules(&helm.render_objects(OTHER_NAMESPACE, &values)?) {
            let of_secrets = |rule: &&Value| string_list(rule, "resources").contains(&"secrets");
            let of_secrets = rules.iter().filter(of_secrets);
            named.extend(of_secrets.flat_map(|rule| {
                let names = string_list(rule, "resourceNames").into_iter();
                names.map(str::to_owned).collect::<Vec<_>>()
            }));
        }
        ensure!(named.iter().eq(expected), "{values}: {named:?}");
    }
    Ok(())
}

pub(crate) fn test_operator_roles(helm: &Helm) -> Result<()> {
    let rendered = role_rules(&helm.render_objects("trellis-system", &with_own_certificates())?);
    let mut tables: Vec<Value> =
        serde_saphyr::from_multiple(&trellis_operator::rbac::render_operator_rbac())?;
    for documents in [
        trellis_operator::rbac::render_visibility_rbac(),
        trellis_operator::rbac::render_endpoint_rbac(),
        trellis_operator::rbac::render_webhook_rbac(),
    ] {
        tables.extend(serde_saphyr::from_multiple::<Value>(&documents)?);
    }
    for namespace in ["team-a", "team-b"] {
        let secrets_role =
            trellis_operator::rbac::render_secrets_rbac().replace("NAMESPACE", namespace);
        tables.extend(serde_saphyr::from_multiple::<Value>(&secrets_role)?);
    }
    let provisioning_role = trellis_operator::rbac::render_provisioning_rbac();
    let provisioning_role = provisioning_role.replace("NAMESPACE", PLACEHOLDER_NAMESPACE);
    tables.extend(serde_saphyr::from_multiple::<Value>(&provisioning_role)?);
    // The chart binds the roles for users to no subject.
    let of_people = [
        "trellis-view",
        "trellis-edit",
        "trellis-admin",
        "trellis-platform",
    ];
    let of_others = [
        "trellis-queues",
        "trellis-own-namespaces",
        "trellis-metrics-reader",
        "trellis-verify",
    ];
    let role_names: Vec<String> = of_people
        .iter()
        .chain(&of_others)
        .map(|name| format!("ClusterRole /{name}"))
        .collect();
    let rendered: Vec<_> = rendered
        .into_iter()
        .filter(|(name, _)| !role_names.contains(name))
        .collect();
    let mut expected = role_rules(&tables);
    expected.sort_by(|a, b| a.0.cmp(&b.0));
    let mut rendered = rendered;
    rendered.sort_by(|a, b| a.0.cmp(&b.0));
    ensure!(rendered == expected, "{rendered:#?}");
    Ok(())
}

/// The role of `trellis verify` has the kinds that the command watches.
pub(crate) fn test_verify_role(helm: &Helm) -> Result<()> {
    let roles = role_rules(&helm.render_objects(OTHER_NAMESPACE, &json!({}))?);
    let role = roles
        .iter()
        .find(|(name, _)| name == "ClusterRole /trellis-verify");
    let (_, rules) = role.context("no ClusterRole trellis-verify")?;
    let mut granted = BTreeSet::new();
    for rule in rules {
        ensure!(
            string_list(rule, "verbs") == ["get", "list", "watch"],
            "{rule}"
        );
        granted.extend(string_list(rule, "resources"));
    }
    let watched = BTreeSet::from(trellis_verify::WATCHED_KINDS);
    ensure!(granted == watched, "{granted:?} {watched:?}");
    Ok(())
}

pub(crate) fn test_least_privilege(helm: &Helm) -> Result<()> {
    let mut of_secrets = BTreeSet::new();
    for (role, rules) in
        role_rules(&helm.render_objects(OTHER_NAMESPACE, &with_own_certificates())?)
    {
        ensure!(!rules.is_empty(), "{role} has no rules");
        for rule in rules {
            for field in ["apiGroups", "resources", "verbs", "nonResourceURLs"] {
                let has_value = string_list(&rule, field)
                    .iter()
                    .any(|word| word.contains('*'));
                ensure!(!has_value, "{role}: {rule}");
            }
            let risky = ["bind", "escalate", "impersonate"];
            let verbs = string_list(&rule, "verbs");
            ensure!(
                !verbs.iter().any(|verb| risky.contains(verb)),
                "{role}: {rule}"
            );
            if string_list(&rule, "resources").contains(&"secrets") {
                of_secrets.insert(format!(
                    "{role} {} {}",
                    verbs.join(","),
                    rule["resourceNames"]
                ));
            }
        }
    }
    let expected = [
        "ClusterRole /trellis-operator create null",
        "Role elsewhere/trellis-endpoint get,update [\"trellis-endpoint\"]",
        "Role elsewhere/trellis-webhook get,update [\"trellis-webhook\"]",
        "Role team-a/trellis-secrets get null",
        "Role team-b/trellis-secrets get null",
    ];
    ensure!(of_secrets.iter().eq(expected), "{of_secrets:#?}");
    Ok(())
}

pub(crate) fn test_user_roles(helm: &Helm) -> Result<()> {
    let all = role_rules(&helm.render_objects(OTHER_NAMESPACE, &json!({}))?);
    let resources_with = |name: &str, verb: &str| -> Result<BTreeSet<String>> {
        let name = format!("ClusterRole /{name}");
        let (_, rules) = all.iter().find(|r| r.0 == name).context(name)?;
        let matching = rules
            .iter()
            .filter(|rule| string_list(rule, "verbs").contains(&verb));
        let resources = matching.flat_map(|rule| string_list(rule, "resources"));
        Ok(resources.map(str::to_owned).collect())
    };
    let (read, platform) = (
        resources_with("trellis-view", "list")?,
        resources_with("trellis-platform", "create")?,
    );
    for crd in crds::all() {
        let plural = &crd.spec.names.plural;
        ensure!(read.contains(plural), "no role reads {plural}");
        // Only the operator writes its records.
        let is_written = crd.spec.scope == "Cluster" && plural != "quotaledgers";
        ensure!(platform.contains(plural) == is_written, "{plural}");
    }
    let deleted = resources_with("trellis-platform", "delete")?;
    for record in ["quotaledgers", "leaderterms"] {
        ensure!(deleted.contains(record), "{record}: {deleted:?}");
    }
    // Users may write jobs and PodGroups, but not the operator's records: the journal is in the
    // status of a PodGroup.
    let edit = resources_with("trellis-edit", "patch")?;
    ensure!(
        edit.iter().eq(["podgroups", "trainingjobs"]),
        "users write PodGroups for other pods: {edit:?}"
    );
    // A Plan is a question, and nothing is stored.
    let created = resources_with("trellis-edit", "create")?;
    ensure!(
        created.iter().eq(["plans", "podgroups", "trainingjobs"]),
        "users may write the journal: {created:?}"
    );
    let for_all = resources_with("trellis-own-namespaces", "list")?;
    ensure!(for_all.iter().eq(["visiblenamespaces"]), "{for_all:?}");
    let admin = resources_with("trellis-admin", "create")?;
    ensure!(admin.iter().eq(["jobpolicies"]), "{admin:?}");
    Ok(())
}
