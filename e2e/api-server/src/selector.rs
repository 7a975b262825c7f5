//! Label and field selectors.

use serde_json::{Map, Value};

use crate::kind::Kind;
use crate::object::{at, text_at};
use crate::status::Status;

/// The selectors of a list or watch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Selector {
    labels: Vec<Requirement>,
    fields: Vec<Requirement>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Requirement {
    key: String,
    operator: Operator,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Operator {
    In(Vec<String>),
    /// Also true if the key is absent.
    NotIn(Vec<String>),
    Exists,
    DoesNotExist,
}

impl Requirement {
    fn matches(&self, value: Option<&str>) -> bool {
        let is_one_of = |values: &[String]| {
            value.is_some_and(|value| values.iter().any(|other| other == value))
        };
        match &self.operator {
            Operator::In(values) => is_one_of(values),
            Operator::NotIn(values) => !is_one_of(values),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
        }
    }
}

impl Selector {
    pub(crate) fn parse(kind: &Kind, labels: &str, fields: &str) -> Result<Self, Status> {
        let labels = parse_labels(labels).map_err(|text| {
            Status::bad_request(format!("unable to parse requirement: found '{text}'"))
        })?;
        let fields = parse_fields(fields)?;
        for field in &fields {
            if !is_selectable(kind, &field.key) {
                let message = if kind.is_custom() {
                    format!("field label not supported: {}", field.key)
                } else {
                    format!(
                        "\"{}\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
                        field.key
                    )
                };
                return Err(Status::bad_request(message));
            }
        }
        Ok(Self { labels, fields })
    }

    pub(crate) fn with_name(mut self, name: &str) -> Self {
        if !name.is_empty() {
            self.fields.push(Requirement {
                key: "metadata.name".to_owned(),
                operator: Operator::In(vec![name.to_owned()]),
            });
        }
        self
    }

    pub(crate) fn is_everything(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    pub(crate) fn matches(&self, object: &Value) -> bool {
        if self.is_everything() {
            return true;
        }
        let labels = at(object, &["metadata", "labels"]).and_then(Value::as_object);
        let label = |key: &str| labels.and_then(|labels| labels.get(key)?.as_str());
        let has_labels = self.labels.iter().all(|r| r.matches(label(&r.key)));
        has_labels
            && self.fields.iter().all(|requirement| {
                let path: Vec<&str> = requirement.key.split('.').collect();
                // An absent field is an empty string.
                requirement.matches(Some(text_at(object, &path)))
            })
    }
}

/// Returns true if the `LabelSelector` of an object selects these labels. Absent: it selects
/// nothing. Empty: everything.
pub(crate) fn label_selector_matches(
    selector: &Value,
    labels: Option<&Map<String, Value>>,
) -> bool {
    let Some(selector) = selector.as_object() else {
        return false;
    };
    let label = |key: &str| labels.and_then(|labels| labels.get(key)?.as_str());
    let equal = selector.get("matchLabels").and_then(Value::as_object);
    let equal = equal.into_iter().flatten();
    let expressions = selector.get("matchExpressions").and_then(Value::as_array);
    let mut expressions = expressions.into_iter().flatten();
    equal
        .into_iter()
        .all(|(key, value)| label(key) == value.as_str())
        && expressions.all(|expression| {
            let values = expression["values"].as_array().into_iter().flatten();
            let values = values.filter_map(|value| value.as_str().map(str::to_owned));
            let operator = match expression["operator"].as_str().unwrap_or_default() {
                "In" => Operator::In(values.collect()),
                "NotIn" => Operator::NotIn(values.collect()),
                "Exists" => Operator::Exists,
                _ => Operator::DoesNotExist,
            };
            let key = text_at(expression, &["key"]).to_owned();
            let value = label(&key);
            Requirement { key, operator }.matches(value)
        })
}

/// Splits at commas outside of parentheses.
fn split_requirements(text: &str) -> Vec<&str> {
    let (mut parts, mut start, mut depth) = (Vec::new(), 0, 0_i32);
    for (index, character) in text.char_indices() {
        match character {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&text[start..index]);
                start = index + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

fn parse_labels(text: &str) -> Result<Vec<Requirement>, String> {
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    let parts = split_requirements(text).into_iter().map(str::trim);
    parts
        .map(|part| parse_label_requirement(part).ok_or_else(|| part.to_owned()))
        .collect()
}

fn parse_label_requirement(part: &str) -> Option<Requirement> {
    let (key, operator) = if let Some(key) = part.strip_prefix('!') {
        (key, Operator::DoesNotExist)
    } else if let Some((key, value)) = part.split_once("!=") {
        (key, Operator::NotIn(vec![value.trim().to_owned()]))
    } else if let Some((key, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
        (key, Operator::In(vec![value.trim().to_owned()]))
    } else if let Some((head, values)) = part.split_once('(') {
        let values = values.strip_suffix(')')?.split(',');
        let values = values.map(|value| value.trim().to_owned()).collect();
        match head.trim().rsplit_once(char::is_whitespace)? {
            (key, "in") => (key, Operator::In(values)),
            (key, "notin") => (key, Operator::NotIn(values)),
            _ => return None,
        }
    } else {
        (part, Operator::Exists)
    };
    let key = key.trim();
    let is_valid = !key.is_empty() && !key.contains(char::is_whitespace);
    is_valid.then(|| Requirement {
        key: key.to_owned(),
        operator,
    })
}

fn parse_fields(text: &str) -> Result<Vec<Requirement>, Status> {
    let parts = text.split(',').filter(|part| !part.is_empty());
    let requirement = |part: &str| {
        let (key, operator) = if let Some((key, value)) = part.split_once("!=") {
            (key, Operator::NotIn(vec![value.to_owned()]))
        } else {
            let pair = part.split_once("==").or_else(|| part.split_once('='));
            let invalid = || {
                let why = format!("invalid field selector: \"{text}\"; can't understand '{part}'");
                Status::bad_request(why)
            };
            let (key, value) = pair.ok_or_else(invalid)?;
            (key, Operator::In(vec![value.to_owned()]))
        };
        Ok(Requirement {
            key: key.to_owned(),
            operator,
        })
    };
    parts.map(requirement).collect()
}

fn is_selectable(kind: &Kind, field: &str) -> bool {
    let of_pods = [
        "spec.nodeName",
        "spec.restartPolicy",
        "spec.schedulerName",
        "spec.serviceAccountName",
        "status.phase",
        "status.podIP",
        "status.nominatedNodeName",
    ];
    match field {
        "metadata.name" => true,
        "metadata.namespace" => kind.namespaced || !kind.is_custom(),
        "spec.unschedulable" => kind.is_core("nodes"),
        "status.phase" if kind.is_core("namespaces") => true,
        "type" => kind.is_core("secrets"),
        _ => kind.is_core("pods") && of_pods.contains(&field),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn label_selector_matches_by_each_operator() {
        let object = json!({"metadata": {"labels": {"app": "a", "tier": "db", "e": ""}}});
        let cases = [
            ("", true),
            ("app=a", true),
            ("app==b", false),
            ("app!=b", true),
            ("absent!=b", true),
            ("app in (a, b),tier", true),
            ("app notin (a,b)", false),
            ("absent notin (a)", true),
            ("!absent", true),
            ("!app", false),
            ("e=", true),
        ];
        for (text, is_match) in cases {
            let labels = parse_labels(text).expect(text);
            let selector = Selector {
                labels,
                fields: Vec::new(),
            };
            assert_eq!(selector.matches(&object), is_match, "{text}");
        }
        for wrong in ["a b", "a in b", "=x"] {
            assert!(parse_labels(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn selector_of_an_object_selects_everything_only_if_it_is_empty() {
        let labels = json!({"app": "a"});
        let matches = |selector: Value| label_selector_matches(&selector, labels.as_object());
        assert!(matches(json!({})));
        assert!(!matches(Value::Null));
        assert!(matches(json!({"matchLabels": {"app": "a"}})));
        assert!(!matches(json!({"matchLabels": {"app": "b"}})));
        let expression = json!({"key": "app", "operator": "NotIn", "values": ["a"]});
        assert!(!matches(json!({"matchExpressions": [expression]})));
    }
}
