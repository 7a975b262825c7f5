//! ResourceQuota: charges new objects to the quotas of their namespace.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::defaults::quality_of_service;
use crate::kind::Kind;
use crate::object::{Object, at, fields_mut, items_at, text_at};
use crate::quantity::Quantity;
use crate::server::{ApiServer, Call};
use crate::status::{Status, qualify};
use crate::store::object_key;

type Amounts = BTreeMap<String, Quantity>;

impl ApiServer {
    /// Charges a new object to all quotas that match, or to none if one of them is exceeded. A
    /// controller of the caller's world gives back what is gone.
    pub(crate) fn charge_quota(&mut self, call: &Call<'_>, object: &Value) -> Result<(), Status> {
        if call.namespace().is_empty() || !call.subresource().is_empty() {
            return Ok(());
        }
        let Some(quota_kind) = self.store.find_kind("", "resourcequotas") else {
            return Ok(());
        };
        let quotas = self.store.in_namespace(quota_kind, call.namespace());
        let quotas: Vec<_> = quotas.cloned().collect();
        if quotas.is_empty() {
            return Ok(());
        }
        let usage = usage_of(&call.kind, object);
        let mut charged = Vec::new();
        for quota in quotas {
            if let Some(used) = charge(call, object, &quota, &usage)? {
                charged.push((quota, used));
            }
        }
        if call.dry_run {
            return Ok(());
        }
        for (quota, used) in charged {
            let mut value = quota.value().clone();
            let status = fields_mut(&mut value, "status");
            let used = used
                .into_iter()
                .map(|(name, amount)| (name, Value::from(amount.to_string())));
            status.insert("used".to_owned(), used.collect::<Value>());
            let key = object_key(quota.namespace(), quota.name());
            let user = self.store.server_user();
            self.store
                .commit(quota_kind, key, Some(value), user, call.now);
        }
        Ok(())
    }
}

/// Returns the used amounts of a quota after a charge. None: the object does not count for it.
fn charge(
    call: &Call<'_>,
    object: &Value,
    quota: &Object,
    usage: &Amounts,
) -> Result<Option<Amounts>, Status> {
    let hard = amounts_at(quota, &["status", "hard"]);
    let is_pod = call.kind.is_core("pods");
    let limited: Vec<&String> = hard
        .keys()
        .filter(|name| is_limited(&call.kind, name))
        .collect();
    if limited.is_empty() || !matches_scopes(quota, object, is_pod) {
        return Ok(None);
    }
    let name = text_at(object, &["metadata", "name"]);
    let forbid = |why: &str| Status::forbidden(&call.kind, name, why);
    if is_pod {
        check_specified(object, &limited)
            .map_err(|why| forbid(&format!("failed quota: {}: {why}", quota.name())))?;
    }
    let mut used = amounts_at(quota, &["status", "used"]);
    let unknown: Vec<&str> = limited
        .iter()
        .filter(|name| !used.contains_key(**name))
        .map(|name| name.as_str())
        .collect();
    if !unknown.is_empty() {
        let why = format!(
            "status unknown for quota: {}, resources: {}",
            quota.name(),
            unknown.join(",")
        );
        return Err(forbid(&why));
    }
    let requested: Amounts = usage
        .iter()
        .filter(|(name, amount)| hard.contains_key(*name) && !amount.is_zero())
        .map(|(name, amount)| (name.clone(), *amount))
        .collect();
    if requested.is_empty() {
        return Ok(None);
    }
    let after = |name: &String| used[name] + requested[name];
    let exceeded: Vec<&String> = requested
        .keys()
        .filter(|name| after(name) > hard[*name])
        .collect();
    if !exceeded.is_empty() {
        let render = |amounts: &Amounts| {
            let all = exceeded
                .iter()
                .map(|name| format!("{name}={}", amounts[*name]));
            all.collect::<Vec<_>>().join(",")
        };
        let why = format!(
            "exceeded quota: {}, requested: {}, used: {}, limited: {}",
            quota.name(),
            render(&requested),
            render(&used),
            render(&hard)
        );
        return Err(forbid(&why));
    }
    for (name, amount) in requested {
        let before = used.get(&name).copied().unwrap_or(Quantity::ZERO);
        used.insert(name, before + amount);
    }
    Ok(Some(used))
}

fn amounts_at(value: &Value, path: &[&str]) -> Amounts {
    let amounts = at(value, path)
        .and_then(Value::as_object)
        .into_iter()
        .flatten();
    let parse = |amount: &Value| Quantity::parse(amount.as_str().unwrap_or_default());
    amounts
        .filter_map(|(name, amount)| Some((name.clone(), parse(amount)?)))
        .collect()
}

/// Returns true if a quota of this name limits the kind.
fn is_limited(kind: &Kind, name: &str) -> bool {
    let count = format!("count/{}", qualify(&kind.plural, &kind.group));
    if name == count || kind.group.is_empty() && name == kind.plural {
        return true;
    }
    if kind.is_core("persistentvolumeclaims") {
        return name == "requests.storage" || name.contains(".storageclass.storage.k8s.io/");
    }
    let compute = [
        "cpu",
        "memory",
        "ephemeral-storage",
        "requests.cpu",
        "requests.memory",
        "requests.ephemeral-storage",
        "limits.cpu",
        "limits.memory",
        "limits.ephemeral-storage",
    ];
    let is_extended = name
        .strip_prefix("requests.")
        .is_some_and(|rest| rest.contains('/'));
    kind.is_core("pods")
        && (compute.contains(&name) || name.starts_with("hugepages-") || is_extended)
        && !name.contains(".storageclass.storage.k8s.io/")
}

fn usage_of(kind: &Kind, object: &Value) -> Amounts {
    let mut usage = Amounts::new();
    let one = Quantity::whole(1);
    usage.insert(format!("count/{}", qualify(&kind.plural, &kind.group)), one);
    if kind.group.is_empty() {
        usage.insert(kind.plural.clone(), one);
    }
    if kind.is_core("pods") {
        for (name, amount) in total(object, "requests") {
            if matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage")
                || name.starts_with("hugepages-")
            {
                usage.insert(name.clone(), amount);
            }
            usage.insert(format!("requests.{name}"), amount);
        }
        for (name, amount) in total(object, "limits") {
            usage.insert(format!("limits.{name}"), amount);
        }
    }
    if kind.is_core("persistentvolumeclaims") {
        let request = text_at(object, &["spec", "resources", "requests", "storage"]);
        let amount = Quantity::parse(request).unwrap_or(Quantity::ZERO);
        usage.insert("requests.storage".to_owned(), amount);
        let class = text_at(object, &["spec", "storageClassName"]);
        if !class.is_empty() {
            let prefix = format!("{class}.storageclass.storage.k8s.io");
            usage.insert(format!("{prefix}/requests.storage"), amount);
            usage.insert(format!("{prefix}/persistentvolumeclaims"), one);
        }
    }
    usage
}

/// Returns what a pod needs: the sum of its containers, or more if its init containers need more.
fn total(pod: &Value, list: &str) -> Amounts {
    let of = |container: &Value| amounts_at(container, &["resources", list]);
    let add = |sum: &mut Amounts, more: Amounts| {
        for (name, amount) in more {
            let before = sum.get(&name).copied().unwrap_or(Quantity::ZERO);
            sum.insert(name, before + amount);
        }
    };
    let mut sum = Amounts::new();
    for container in items_at(pod, &["spec", "containers"]) {
        add(&mut sum, of(container));
    }
    // Init containers with this policy keep running beside the others.
    let (mut running, mut peak) = (Amounts::new(), Amounts::new());
    for container in items_at(pod, &["spec", "initContainers"]) {
        let mut needed = running.clone();
        add(&mut needed, of(container));
        if container["restartPolicy"] == "Always" {
            running = needed.clone();
        }
        for (name, amount) in needed {
            let before = peak.get(&name).copied().unwrap_or(Quantity::ZERO);
            peak.insert(name, if amount > before { amount } else { before });
        }
    }
    add(&mut sum, running);
    for (name, amount) in peak {
        let before = sum.get(&name).copied().unwrap_or(Quantity::ZERO);
        if amount > before {
            sum.insert(name, amount);
        }
    }
    add(&mut sum, amounts_at(pod, &["spec", "overhead"]));
    sum
}

/// Requires requests and limits of CPU and memory that a quota limits.
fn check_specified(pod: &Value, limited: &[&String]) -> Result<(), String> {
    let mut missing: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for list in ["containers", "initContainers"] {
        for container in items_at(pod, &["spec", list]) {
            let has = |list: &str, name: &str| at(container, &["resources", list, name]).is_some();
            for limit in limited {
                let is_specified = match limit.as_str() {
                    "cpu" | "requests.cpu" => has("requests", "cpu"),
                    "memory" | "requests.memory" => has("requests", "memory"),
                    "limits.cpu" => has("limits", "cpu"),
                    "limits.memory" => has("limits", "memory"),
                    _ => true,
                };
                if !is_specified {
                    missing
                        .entry(limit)
                        .or_default()
                        .push(text_at(container, &["name"]));
                }
            }
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    let all = missing
        .iter()
        .map(|(name, containers)| format!("{name} for: {}", containers.join(",")));
    Err(format!(
        "must specify {}",
        all.collect::<Vec<_>>().join("; ")
    ))
}

fn matches_scopes(quota: &Value, object: &Value, is_pod: bool) -> bool {
    let scopes = items_at(quota, &["spec", "scopes"])
        .iter()
        .filter_map(Value::as_str);
    let mut scopes = scopes.map(|scope| (scope, "Exists", &[][..]));
    let selectors = items_at(quota, &["spec", "scopeSelector", "matchExpressions"]);
    let mut selectors = selectors.iter().map(|selector| {
        let scope = text_at(selector, &["scopeName"]);
        (
            scope,
            text_at(selector, &["operator"]),
            items_at(selector, &["values"]),
        )
    });
    let matches = |(scope, operator, values): (&str, &str, &[Value])| {
        is_pod && matches_scope(object, scope, operator, values)
    };
    scopes.all(matches) && selectors.all(matches)
}

fn matches_scope(pod: &Value, scope: &str, operator: &str, values: &[Value]) -> bool {
    let is_terminating = pod["spec"]["activeDeadlineSeconds"].as_i64().is_some();
    let is_best_effort = quality_of_service(pod) == "BestEffort";
    let class = text_at(pod, &["spec", "priorityClassName"]);
    let is_listed = !class.is_empty() && values.iter().any(|value| value == class);
    match scope {
        "Terminating" => is_terminating,
        "NotTerminating" => !is_terminating,
        "BestEffort" => is_best_effort,
        "NotBestEffort" => !is_best_effort,
        "PriorityClass" => match operator {
            "In" => is_listed,
            "NotIn" => !is_listed,
            "DoesNotExist" => class.is_empty(),
            _ => !class.is_empty(),
        },
        "CrossNamespacePodAffinity" => ["podAffinity", "podAntiAffinity"].iter().any(|affinity| {
            let affinity = pod["spec"]["affinity"][affinity].to_string();
            affinity.contains("\"namespaces\"") || affinity.contains("\"namespaceSelector\"")
        }),
        _ => false,
    }
}
