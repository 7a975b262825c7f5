//! Scripts: requests to both servers.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde_json::Value;

/// A list of requests that show one rule.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Script {
    /// The rule.
    pub(crate) script: String,
    pub(crate) steps: Vec<Step>,
}

/// One request.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Step {
    /// Method and path: `GET /api/v1/pods`. A path without a slash at the start is in the namespace,
    /// in the core group.
    #[serde(rename = "do")]
    pub(crate) request: String,
    #[serde(default)]
    pub(crate) body: Value,
    /// Content type. By default, that of the method.
    #[serde(default)]
    pub(crate) kind: Option<String>,
    #[serde(default)]
    pub(crate) accept: Option<String>,
    /// Name of the answer, for later steps.
    #[serde(default)]
    pub(crate) save: Option<String>,
}

impl fmt::Display for Step {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.request)
    }
}

impl Step {
    pub(crate) fn get(path: &str) -> Self {
        Self::new(format!("GET {path}"), Value::Null)
    }

    pub(crate) fn post(path: &str, body: Value) -> Self {
        Self::new(format!("POST {path}"), body)
    }

    fn new(request: String, body: Value) -> Self {
        Self {
            request,
            body,
            kind: None,
            accept: None,
            save: None,
        }
    }

    pub(crate) fn method(&self) -> &str {
        self.request.split(' ').next().unwrap_or_default()
    }

    pub(crate) fn path(&self) -> &str {
        self.request.split_once(' ').expect("a method and a path").1
    }

    pub(crate) fn is_watch(&self) -> bool {
        self.path().contains("watch=1")
    }

    pub(crate) fn content_type(&self) -> &str {
        match (&self.kind, self.method()) {
            (Some(kind), _) => kind,
            (None, "PATCH") => "application/merge-patch+json",
            _ => "application/json",
        }
    }

    /// Fills in the namespace, and fields of earlier answers.
    pub(crate) fn resolve(&self, namespace: &str, saved: &BTreeMap<String, Value>) -> Self {
        let mut step = self.clone();
        let (method, path) = (self.method(), self.path());
        let path = if path.starts_with('/') {
            path.to_owned()
        } else {
            format!("/api/v1/namespaces/NS/{path}")
        };
        step.request = format!("{method} {}", resolve_text(&path, namespace, saved));
        resolve_value(&mut step.body, namespace, saved);
        step
    }
}

fn resolve_value(value: &mut Value, namespace: &str, saved: &BTreeMap<String, Value>) {
    match value {
        Value::Object(fields) => {
            for value in fields.values_mut() {
                resolve_value(value, namespace, saved);
            }
        }
        Value::Array(items) => {
            for value in items {
                resolve_value(value, namespace, saved);
            }
        }
        // A whole answer.
        Value::String(text) if text.starts_with('$') && saved.contains_key(&text[1..]) => {
            *value = saved[&text[1..]].clone();
        }
        Value::String(text) => *text = resolve_text(text, namespace, saved),
        _ => {}
    }
}

fn resolve_text(text: &str, namespace: &str, saved: &BTreeMap<String, Value>) -> String {
    let mut out = text.replace("NS", namespace);
    while let Some(start) = out.find('$') {
        let end = out[start..]
            .find(['&', ' '])
            .map_or(out.len(), |end| start + end);
        let (name, path) = out[start + 1..end].split_once('/').expect("$name/path");
        let answer = saved
            .get(name)
            .unwrap_or_else(|| panic!("nothing is saved as {name}"));
        let field = answer.pointer(&format!("/{path}")).and_then(Value::as_str);
        let field = field
            .unwrap_or_else(|| panic!("{name} has no {path}: {answer}"))
            .to_owned();
        out.replace_range(start..end, &field);
    }
    out
}

pub(crate) fn parse(text: &str) -> Result<Vec<Script>, String> {
    // `n` is a name here, not false.
    let options = serde_saphyr::options! { strict_booleans: true };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| error.to_string())
}
