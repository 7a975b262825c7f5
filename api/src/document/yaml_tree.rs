//! A YAML document as a tree of values with their positions.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use serde_saphyr::{DefaultMessageFormatter, Error, Location, MessageFormatter, Spanned};

/// A position in a document: line and column from 1, the column in characters. Line 0: unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct YamlPosition {
    pub(super) line: usize,
    pub(super) column: usize,
}

impl From<Location> for YamlPosition {
    fn from(location: Location) -> Self {
        Self {
            line: usize::try_from(location.line()).unwrap_or(0),
            column: usize::try_from(location.column()).unwrap_or(0),
        }
    }
}

/// A value and its position.
#[derive(Clone, Debug)]
pub(super) struct YamlTree {
    pub(super) position: YamlPosition,
    node: YamlNode,
}

#[derive(Clone, Debug)]
enum YamlNode {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    List(Vec<YamlTree>),
    Map(Vec<YamlEntry>),
}

#[derive(Clone, Debug)]
struct YamlEntry {
    key: String,
    position: YamlPosition,
    value: YamlTree,
}

/// Deepest nesting of a document. Objects of Kubernetes have about twenty levels.
const MAX_DEPTH: usize = 100;

/// Stack of the reader, which takes up to 100 kilobytes for a level in a build without optimisation.
/// A thread of a server has two megabytes.
const STACK_BYTES: usize = 16 << 20;

impl YamlTree {
    /// Parses a document. Anchors are expanded, within a budget.
    pub(super) fn parse(text: &str) -> Result<Self, (YamlPosition, String)> {
        // A document without aliases cannot have more nodes than characters.
        let mut budget = serde_saphyr::Budget::default();
        let nodes = text.len().checked_div(4).unwrap_or(0);
        budget.max_nodes = budget.max_nodes.max(nodes);
        budget.max_depth = MAX_DEPTH;
        budget.max_events = budget.max_events.max(nodes.saturating_mul(2));
        let options = serde_saphyr::options! {
            budget: Some(budget),
            with_snippet: false,
            legacy_octal_numbers: true,
        };
        let read = || serde_saphyr::from_str_with_options(text, options);
        stacker::grow(STACK_BYTES, read).map_err(|e| explain_error(&e, text))
    }

    pub(super) fn text(&self) -> Option<&str> {
        match &self.node {
            YamlNode::Text(text) => Some(text),
            _ => None,
        }
    }

    fn entry(&self, key: &str) -> Option<&YamlEntry> {
        match &self.node {
            YamlNode::Map(entries) => entries.iter().find(|e| e.key == key),
            _ => None,
        }
    }

    pub(super) fn get(&self, key: &str) -> Option<&Self> {
        self.entry(key).map(|e| &e.value)
    }

    pub(super) fn has_items(&self) -> bool {
        let items = self.get("items").map(|t| &t.node);
        matches!(items, Some(YamlNode::List(_) | YamlNode::Null))
    }

    /// Returns the items of a list object. Other objects have none.
    pub(super) fn into_items(self) -> Vec<Self> {
        let YamlNode::Map(entries) = self.node else {
            return Vec::new();
        };
        let items = entries.into_iter().find(|e| e.key == "items");
        match items.map(|e| e.value.node) {
            Some(YamlNode::List(items)) => items,
            _ => Vec::new(),
        }
    }

    /// Returns the entries of a mapping: key, position of the key, value. Other values have none.
    pub(super) fn entries(&self) -> impl Iterator<Item = (&str, YamlPosition, &Self)> {
        let entries = match &self.node {
            YamlNode::Map(entries) => entries.as_slice(),
            _ => &[],
        };
        entries
            .iter()
            .map(|e| (e.key.as_str(), e.position, &e.value))
    }

    /// Returns the items of a list. Other values have none.
    pub(super) fn items(&self) -> &[Self] {
        match &self.node {
            YamlNode::List(items) => items,
            _ => &[],
        }
    }

    pub(super) fn is_list(&self) -> bool {
        matches!(self.node, YamlNode::List(_))
    }

    /// True for null, and for an empty list or mapping.
    pub(super) fn is_blank(&self) -> bool {
        match &self.node {
            YamlNode::Null => true,
            YamlNode::List(items) => items.is_empty(),
            YamlNode::Map(entries) => entries.is_empty(),
            _ => false,
        }
    }

    /// Returns the position of a field such as `spec.taskGroups[0].replicas`. An absent field has
    /// the position of the nearest key around it, or of the list item or document that lacks it.
    pub(super) fn position_of(&self, path: &str) -> YamlPosition {
        self.locate(path).unwrap_or(self.position)
    }

    fn locate(&self, path: &str) -> Option<YamlPosition> {
        let path = path.strip_prefix('.').unwrap_or(path);
        match &self.node {
            _ if path.is_empty() => Some(self.position),
            YamlNode::List(items) => {
                let (index, rest) = path.strip_prefix('[')?.split_once(']')?;
                let item = items.get(index.parse::<usize>().ok()?)?;
                item.locate(rest).or(Some(item.position))
            }
            YamlNode::Map(entries) => {
                // Keys may contain dots: the longest matching key wins.
                let fits = |e: &&YamlEntry| {
                    let rest = path.strip_prefix(e.key.as_str());
                    rest.is_some_and(|r| r.is_empty() || r.starts_with(['.', '[']))
                };
                let entry = entries.iter().filter(fits).max_by_key(|e| e.key.len())?;
                let rest = path.strip_prefix(entry.key.as_str())?;
                if rest.is_empty() && entry.value.is_blank() {
                    return Some(entry.position);
                }
                entry.value.locate(rest).or(Some(entry.position))
            }
            _ => None,
        }
    }

    /// Returns the position of a field's key, if it has one.
    pub(super) fn key_position_of(&self, path: &str) -> YamlPosition {
        self.locate_key(path)
            .unwrap_or_else(|| self.position_of(path))
    }

    fn locate_key(&self, path: &str) -> Option<YamlPosition> {
        let path = path.strip_prefix('.').unwrap_or(path);
        match &self.node {
            YamlNode::List(items) => {
                let (index, rest) = path.strip_prefix('[')?.split_once(']')?;
                items.get(index.parse::<usize>().ok()?)?.locate_key(rest)
            }
            YamlNode::Map(entries) => {
                if let Some(entry) = entries.iter().find(|e| e.key == path) {
                    return Some(entry.position);
                }
                let fits = |e: &&YamlEntry| {
                    let rest = path.strip_prefix(e.key.as_str());
                    rest.is_some_and(|r| r.starts_with(['.', '[']))
                };
                let entry = entries.iter().filter(fits).max_by_key(|e| e.key.len())?;
                entry
                    .value
                    .locate_key(path.strip_prefix(entry.key.as_str())?)
            }
            _ => None,
        }
    }

    /// Returns the value at a path such as `spec.events[0].apply`.
    pub(super) fn descend(&self, path: &str) -> Option<&Self> {
        let path = path.strip_prefix('.').unwrap_or(path);
        if path.is_empty() {
            return Some(self);
        }
        if let Some((index, rest)) = path.strip_prefix('[').and_then(|p| p.split_once(']')) {
            return self
                .items()
                .get(index.parse::<usize>().ok()?)?
                .descend(rest);
        }
        let end = path.find(['.', '[']).unwrap_or(path.len());
        let (key, rest) = path.split_at_checked(end)?;
        self.get(key)?.descend(rest)
    }

    /// Returns the value without positions.
    pub(super) fn value(&self) -> Value {
        match &self.node {
            YamlNode::Null => Value::Null,
            YamlNode::Bool(b) => Value::Bool(*b),
            YamlNode::Number(n) => Value::Number(n.clone()),
            YamlNode::Text(text) => Value::String(text.clone()),
            YamlNode::List(items) => items.iter().map(Self::value).collect(),
            YamlNode::Map(entries) => {
                let map = entries.iter().map(|e| (e.key.clone(), e.value.value()));
                Value::Object(map.collect::<Map<_, _>>())
            }
        }
    }
}

/// Returns the position and cause of a YAML syntax error.
fn explain_error(error: &Error, text: &str) -> (YamlPosition, String) {
    let at = error.location().map(YamlPosition::from).unwrap_or_default();
    if let Some(tab) = find_tab_near(at, text) {
        let message = "is indented with a tab: indent with spaces";
        return (tab, message.to_owned());
    }
    let mut inner = error.without_snippet();
    while let Error::AliasError { error, .. } = inner {
        inner = error.without_snippet();
    }
    let message = match inner {
        Error::Budget { .. } | Error::AliasReplayLimitExceeded { .. } => {
            "is too large, or nested too deep, once its anchors are written out: write it with fewer anchors"
                .to_owned()
        }
        other => {
            let message = DefaultMessageFormatter.format_message(other).into_owned();
            let key = message.strip_prefix("duplicate mapping key: ");
            let key = key.map(|rest| rest.split(", set ").next().unwrap_or(rest));
            match key {
                Some(key) => format!("duplicate key {key:?}: remove one of the two"),
                None => format!("is no YAML: {message}"),
            }
        }
    };
    (at, message)
}

/// Finds a tab in the indentation, on the line of an error or on the next one. The parser often
/// reports only that the line before does not end.
fn find_tab_near(at: YamlPosition, text: &str) -> Option<YamlPosition> {
    let before = at.line.checked_sub(1)?;
    let lines = text.lines().enumerate().skip(before).take(2);
    lines
        .filter(|(_, line)| !line.trim().is_empty())
        .find_map(|(number, line)| {
            let indent = line.len().checked_sub(line.trim_start().len())?;
            let tab = line.get(..indent)?.find('\t')?;
            Some(YamlPosition {
                line: number.saturating_add(1),
                column: tab.saturating_add(1),
            })
        })
}

impl<'de> Deserialize<'de> for YamlTree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<YamlNode>::deserialize(deserializer)?;
        Ok(Self {
            position: spanned.referenced.into(),
            node: spanned.value,
        })
    }
}

impl<'de> Deserialize<'de> for YamlNode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(YamlNodeVisitor)
    }
}

struct YamlNodeVisitor;

impl<'de> Visitor<'de> for YamlNodeVisitor {
    type Value = YamlNode;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<YamlNode, E> {
        Ok(YamlNode::Null)
    }

    fn visit_none<E>(self) -> Result<YamlNode, E> {
        Ok(YamlNode::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<YamlNode, D::Error> {
        YamlNode::deserialize(deserializer)
    }

    fn visit_bool<E>(self, value: bool) -> Result<YamlNode, E> {
        Ok(YamlNode::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<YamlNode, E> {
        Ok(YamlNode::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<YamlNode, E> {
        Ok(YamlNode::Number(value.into()))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<YamlNode, E> {
        // The API server also reads 1e3 as a whole number.
        let whole = format!("{value}").parse::<i64>().ok().map(Number::from);
        whole
            .or_else(|| Number::from_f64(value))
            .map(YamlNode::Number)
            .ok_or_else(|| E::custom("a number must be finite"))
    }

    fn visit_str<E>(self, value: &str) -> Result<YamlNode, E> {
        Ok(YamlNode::Text(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<YamlNode, E> {
        Ok(YamlNode::Text(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<YamlNode, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(YamlNode::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<YamlNode, A::Error> {
        let mut entries = Vec::new();
        while let Some((key, value)) = map.next_entry::<Spanned<String>, YamlTree>()? {
            entries.push(YamlEntry {
                position: key.referenced.into(),
                key: key.value,
                value,
            });
        }
        Ok(YamlNode::Map(entries))
    }
}
