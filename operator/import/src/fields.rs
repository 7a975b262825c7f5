//! A document that is read field by field; reading a field marks it as read.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use trellis_api::Quantity;
use trellis_api::document::Document;

use crate::field_log::FieldLog;

/// A part of a document.
#[derive(Clone)]
pub(crate) struct Fields<'a> {
    log: &'a FieldLog,
    value: &'a Value,
    path: String,
    /// Fields that apply if this part does not set them.
    fallback: Option<Box<Self>>,
}

/// Returns the content of a document.
pub(crate) fn to_value(document: &Document) -> Value {
    document.decode().unwrap_or_default()
}

impl<'a> Fields<'a> {
    /// Returns all fields of a document.
    pub(crate) fn root(log: &'a FieldLog, value: &'a Value) -> Self {
        Self {
            log,
            value,
            path: String::new(),
            fallback: None,
        }
    }

    /// Adds fields that apply if this part does not set them. Mappings are merged field by field;
    /// other values are replaced as a whole.
    pub(crate) fn with_fallback(self, otherwise: Option<Self>) -> Self {
        Self {
            fallback: otherwise.map(Box::new),
            ..self
        }
    }

    pub(crate) fn log(&self) -> &'a FieldLog {
        self.log
    }

    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    pub(crate) fn value(&self) -> &'a Value {
        self.value
    }

    /// Returns the path of a field of this part.
    pub(crate) fn field_path(&self, key: &str) -> String {
        if self.path.is_empty() {
            key.to_owned()
        } else {
            format!("{}.{key}", self.path)
        }
    }

    /// Returns a field. None: it is absent or null, which Kubernetes treats as absent.
    pub(crate) fn get(&self, key: &str) -> Option<Self> {
        let own = self.value.get(key).filter(|value| !value.is_null());
        let other = self.fallback.as_ref().and_then(|other| other.get(key));
        let Some(value) = own else {
            return other;
        };
        let mut found = Self {
            log: self.log,
            value,
            path: self.field_path(key),
            fallback: None,
        };
        match other {
            Some(other) if value.is_object() && other.value.is_object() => {
                found.fallback = Some(Box::new(other));
            }
            // This part's own value replaces it.
            Some(other) => other.mark_read(),
            None => {}
        }
        Some(found)
    }

    /// Marks the field and everything in it as read.
    pub(crate) fn mark_read(&self) {
        self.log.mark_read(&self.path);
        if let Some(other) = &self.fallback {
            other.mark_read();
        }
    }

    /// Returns a mapping. None: the field is absent, or is no mapping, which is a problem.
    pub(crate) fn object(&self, key: &str) -> Option<Self> {
        let found = self.get(key)?;
        if !found.value.is_object() {
            found.reject_type("a mapping");
            return None;
        }
        found.mark_opened();
        Some(found)
    }

    fn mark_opened(&self) {
        self.log.mark_opened(&self.path);
        if let Some(other) = &self.fallback {
            other.mark_opened();
        }
    }

    /// Returns the items of a list.
    pub(crate) fn items(&self, key: &str) -> Vec<Self> {
        let Some(found) = self.get(key) else {
            return Vec::new();
        };
        let Some(items) = found.value.as_array() else {
            found.reject_type("a list");
            return Vec::new();
        };
        self.log.mark_opened(&found.path);
        let items = items.iter().enumerate();
        items
            .map(|(index, value)| Self {
                log: self.log,
                value,
                path: format!("{}[{index}]", found.path),
                fallback: None,
            })
            .collect()
    }

    /// Returns the items of a list of mappings.
    pub(crate) fn objects(&self, key: &str) -> Vec<Self> {
        let mut items = self.items(key);
        items.retain(|item| {
            let is_object = item.value.is_object();
            if is_object {
                item.mark_opened();
            } else {
                item.reject_type("a mapping");
            }
            is_object
        });
        items
    }

    /// Returns the keys of this mapping and of its fallback, sorted and without duplicates.
    pub(crate) fn keys(&self) -> Vec<String> {
        let own = self.value.as_object().into_iter().flat_map(Map::keys);
        let mut keys: Vec<String> = own.cloned().collect();
        for key in self.fallback.iter().flat_map(|other| other.keys()) {
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        keys
    }

    /// Returns the entries of a mapping by key.
    pub(crate) fn entries(&self, key: &str) -> Vec<(String, Self)> {
        let Some(found) = self.object(key) else {
            return Vec::new();
        };
        let keys = found.keys().into_iter();
        keys.filter_map(|key| Some((key.clone(), found.get(&key)?)))
            .collect()
    }

    /// Returns the entries of a mapping of mappings.
    pub(crate) fn object_entries(&self, key: &str) -> Vec<(String, Self)> {
        let Some(found) = self.object(key) else {
            return Vec::new();
        };
        let keys = found.keys().into_iter();
        keys.filter_map(|key| Some((key.clone(), found.object(&key)?)))
            .collect()
    }

    /// Reports that the value has the wrong type.
    fn reject_type(&self, expected: &str) {
        let fix = match (expected, self.value) {
            ("a text", Value::Number(_) | Value::Bool(_)) => ": put it in quotes",
            ("a list", Value::Object(_)) => ": begin it with a dash",
            _ => "",
        };
        let actual = yaml_type(self.value);
        let message = format!("must be {expected}, not {actual}{fix}");
        self.log.add_problem(&self.path, message);
    }

    fn read_as<T>(&self, expected: &str, read: impl FnOnce(&'a Value) -> Option<T>) -> Option<T> {
        self.mark_read();
        let read = read(self.value);
        if read.is_none() {
            self.reject_type(expected);
        }
        read
    }

    /// Returns the value as a text.
    pub(crate) fn as_text(&self) -> Option<String> {
        self.read_as("a text", Value::as_str).map(str::to_owned)
    }

    /// Returns the value as a quantity: a number or a text.
    pub(crate) fn as_quantity(&self) -> Option<Quantity> {
        let quantity = self.read_as("a quantity", |value| match value {
            Value::String(text) => Some(Quantity::new(text.as_str())),
            Value::Number(number) => Some(Quantity::new(number.to_string())),
            _ => None,
        })?;
        if let Err(error) = quantity.amount() {
            self.log.add_problem(&self.path, error.to_string());
            return None;
        }
        Some(quantity)
    }

    /// Returns a text. An empty text counts as absent, as in Go.
    pub(crate) fn text(&self, key: &str) -> Option<String> {
        let text = self.get(key)?.as_text()?;
        Some(text).filter(|text| !text.is_empty())
    }

    /// Returns an integer.
    pub(crate) fn integer(&self, key: &str) -> Option<i64> {
        self.get(key)?.read_as("a whole number", Value::as_i64)
    }

    /// Returns the value as an integer of 32 bits.
    pub(crate) fn as_i32(&self) -> Option<i32> {
        let small = |value: &Value| i32::try_from(value.as_i64()?).ok();
        self.read_as("a whole number of at most 2147483647", small)
    }

    /// Returns an integer of 32 bits.
    pub(crate) fn small_integer(&self, key: &str) -> Option<i32> {
        self.get(key)?.as_i32()
    }

    /// Returns one of these words. Any other text is a problem.
    pub(crate) fn one_of(&self, key: &str, words: &[&str]) -> Option<String> {
        let text = self.text(key)?;
        if words.contains(&text.as_str()) {
            return Some(text);
        }
        let named = match words.split_last() {
            Some((last, [])) => (*last).to_owned(),
            Some((last, others)) => format!("{} or {last}", others.join(", ")),
            None => String::new(),
        };
        let message = format!("must be {named}: write one of them");
        self.log.add_problem(&self.field_path(key), message);
        None
    }

    /// Returns a boolean.
    pub(crate) fn boolean(&self, key: &str) -> Option<bool> {
        self.get(key)?.read_as("true or false", Value::as_bool)
    }

    /// Returns a quantity.
    pub(crate) fn quantity(&self, key: &str) -> Option<Quantity> {
        self.get(key)?.as_quantity()
    }

    /// Returns a list of texts.
    pub(crate) fn texts(&self, key: &str) -> Vec<String> {
        let items = self.items(key);
        items.iter().filter_map(Self::as_text).collect()
    }

    /// Returns a mapping of texts.
    pub(crate) fn map(&self, key: &str) -> BTreeMap<String, String> {
        let entries = self.entries(key).into_iter();
        entries
            .filter_map(|(key, value)| Some((key, value.as_text()?)))
            .collect()
    }

    /// Adds a note: how the field is imported and why, and what the user can do instead.
    pub(crate) fn note(&self, reason: impl Into<String>, instead: impl Into<String>) {
        self.mark_read();
        self.log.note(&self.path, Some(self.value), reason, instead);
    }

    /// Adds a note if the field is present and has an effect.
    pub(crate) fn note_at(&self, key: &str, reason: &str, instead: &str) {
        if let Some(found) = self
            .get(key)
            .filter(|found| !self.log.is_ignored(&found.path))
        {
            found.note(reason, instead);
        }
    }

    /// Marks fields that have no effect in Trellis.
    pub(crate) fn ignore(&self, keys: &[&str]) {
        for key in keys {
            if let Some(found) = self.get(key) {
                found.mark_read();
                self.log.ignore(&found.path);
            }
        }
    }

    /// Marks a field that has no effect if it has this value.
    pub(crate) fn ignore_if(&self, key: &str, value: &Value) {
        if self.get(key).is_some_and(|found| found.value == value) {
            self.ignore(&[key]);
        }
    }
}

/// Describes a value in YAML terms.
fn yaml_type(value: &Value) -> String {
    match value {
        Value::Null => "nothing".to_owned(),
        Value::Bool(b) => b.to_string(),
        Value::Number(number) => format!("the number {number}"),
        Value::String(text) => {
            let start: String = text.chars().take(40).collect();
            format!("the text {start:?}")
        }
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "a mapping".to_owned(),
    }
}
