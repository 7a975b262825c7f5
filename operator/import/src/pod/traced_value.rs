//! Parts of a document that are copied unchanged, with the origin of each value.

use serde_json::{Map, Value};

use crate::fields::Fields;

/// A part of a document that remembers the path of each value.
#[derive(Clone, Debug)]
pub(crate) struct TracedValue {
    origin: String,
    node: TracedNode,
}

#[derive(Clone, Debug)]
enum TracedNode {
    Leaf(Value),
    Map(Vec<(String, TracedValue)>),
    List(Vec<TracedValue>),
}

impl TracedValue {
    /// Copies a part and marks it as read.
    pub(crate) fn from_fields(fields: &Fields<'_>) -> Self {
        fields.mark_read();
        Self::copy_fields(fields)
    }

    fn copy_fields(fields: &Fields<'_>) -> Self {
        if !fields.value().is_object() {
            return Self::from_value(fields.path(), fields.value());
        }
        let keys = fields.keys().into_iter();
        let entries =
            keys.filter_map(|key| Some((key.clone(), Self::copy_fields(&fields.get(&key)?))));
        Self {
            origin: fields.path().to_owned(),
            node: TracedNode::Map(entries.collect()),
        }
    }

    fn from_value(origin: &str, value: &Value) -> Self {
        let node = match value {
            Value::Array(items) => {
                let items = items.iter().enumerate();
                let item = |(at, item)| Self::from_value(&format!("{origin}[{at}]"), item);
                TracedNode::List(items.map(item).collect())
            }
            Value::Object(map) => {
                let entries = map.iter().filter(|(_, value)| !value.is_null());
                let entry = |(key, value): (&String, &Value)| {
                    (
                        key.clone(),
                        Self::from_value(&format!("{origin}.{key}"), value),
                    )
                };
                TracedNode::Map(entries.map(entry).collect())
            }
            other => TracedNode::Leaf(other.clone()),
        };
        Self {
            origin: origin.to_owned(),
            node,
        }
    }

    /// Creates a value that replaces the value at `origin`.
    pub(crate) fn leaf(origin: &str, value: impl Into<Value>) -> Self {
        Self::from_value(origin, &value.into())
    }

    /// Creates an empty mapping.
    pub(crate) fn empty_map(origin: &str) -> Self {
        Self {
            origin: origin.to_owned(),
            node: TracedNode::Map(Vec::new()),
        }
    }

    /// Creates a list of these items.
    pub(crate) fn list(origin: &str, items: Vec<Self>) -> Self {
        Self {
            origin: origin.to_owned(),
            node: TracedNode::List(items),
        }
    }

    /// Returns the path of the value in the document.
    pub(crate) fn origin(&self) -> &str {
        &self.origin
    }

    /// Sets a field of a mapping.
    pub(crate) fn insert(&mut self, key: &str, value: Self) {
        if let TracedNode::Map(entries) = &mut self.node {
            entries.retain(|(known, _)| known != key);
            entries.push((key.to_owned(), value));
        }
    }

    /// Returns true for an empty mapping or list.
    pub(crate) fn is_empty(&self) -> bool {
        match &self.node {
            TracedNode::Leaf(_) => false,
            TracedNode::Map(entries) => entries.is_empty(),
            TracedNode::List(items) => items.is_empty(),
        }
    }

    /// Returns a field of a mapping.
    pub(crate) fn get(&self, key: &str) -> Option<&Self> {
        match &self.node {
            TracedNode::Map(entries) => entries.iter().find(|(k, _)| k == key).map(|(_, v)| v),
            TracedNode::Leaf(_) | TracedNode::List(_) => None,
        }
    }

    /// Returns the items of a list.
    pub(crate) fn items(&self) -> &[Self] {
        match &self.node {
            TracedNode::List(items) => items,
            TracedNode::Leaf(_) | TracedNode::Map(_) => &[],
        }
    }

    /// Returns the value as JSON.
    pub(crate) fn value(&self) -> Value {
        match &self.node {
            TracedNode::Leaf(value) => value.clone(),
            TracedNode::List(items) => items.iter().map(Self::value).collect(),
            TracedNode::Map(entries) => {
                let entries = entries.iter().map(|(k, v)| (k.clone(), v.value()));
                Value::Object(entries.collect::<Map<_, _>>())
            }
        }
    }

    /// Removes the value at a path such as `spec.volumes[1]`, or the nearest enclosing value that
    /// exists. None: only the whole part encloses the path, and it stays.
    pub(crate) fn remove(&mut self, path: &str) -> Option<Self> {
        let (at, rest) = self.split_path(path)?;
        let is_whole = rest.is_empty() || rest == ".name";
        if !is_whole && let Some(removed) = self.child_mut(at)?.remove(rest) {
            return Some(removed);
        }
        match &mut self.node {
            TracedNode::Map(entries) if at < entries.len() => Some(entries.remove(at).1),
            TracedNode::List(items) if at < items.len() => Some(items.remove(at)),
            _ => None,
        }
    }

    fn child_mut(&mut self, at: usize) -> Option<&mut Self> {
        match &mut self.node {
            TracedNode::Map(entries) => entries.get_mut(at).map(|(_, value)| value),
            TracedNode::List(items) => items.get_mut(at),
            TracedNode::Leaf(_) => None,
        }
    }

    /// Splits a path into its first child and the remaining path. Keys may contain dots, so the
    /// longest matching key wins.
    fn split_path<'p>(&self, path: &'p str) -> Option<(usize, &'p str)> {
        let path = path.strip_prefix('.').unwrap_or(path);
        match &self.node {
            TracedNode::Leaf(_) => None,
            TracedNode::List(items) => {
                let (index, rest) = path.strip_prefix('[')?.split_once(']')?;
                let index = index.parse().ok().filter(|at| *at < items.len())?;
                Some((index, rest))
            }
            TracedNode::Map(entries) => {
                let fits = |(at, (key, _)): (usize, &(String, Self))| {
                    let rest = path.strip_prefix(key.as_str())?;
                    let ends = rest.is_empty() || rest.starts_with(['.', '[']);
                    ends.then_some((key.len(), at, rest))
                };
                let found = entries.iter().enumerate().filter_map(fits).max()?;
                Some((found.1, found.2))
            }
        }
    }
}
