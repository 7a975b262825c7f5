//! Labels of nodes. A cluster has many labels and few distinct texts, so each text is stored once.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

/// A set of labels.
pub(crate) trait LabelSource {
    /// Returns the value of a label.
    fn label(&self, key: &str) -> Option<&str>;
}

impl LabelSource for BTreeMap<String, String> {
    fn label(&self, key: &str) -> Option<&str> {
        self.get(key).map(String::as_str)
    }
}

/// The labels of a node, by key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeLabels(Box<[(Arc<str>, Arc<str>)]>);

impl NodeLabels {
    /// Returns the value of a label.
    pub(crate) fn get(&self, key: &str) -> Option<&Arc<str>> {
        let at = self.0.binary_search_by(|(k, _)| (**k).cmp(key)).ok()?;
        self.0.get(at).map(|(_, value)| value)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, value)| (&**key, &**value))
    }

    pub(crate) fn to_map(&self) -> BTreeMap<String, String> {
        let owned = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
        self.iter().map(owned).collect()
    }
}

impl LabelSource for NodeLabels {
    fn label(&self, key: &str) -> Option<&str> {
        self.get(key).map(|value| &**value)
    }
}

/// Every text that a label has as its key or value, and some that are no longer used. It uses the
/// standard hasher because users choose the texts.
#[derive(Debug, Default)]
pub(crate) struct LabelTexts {
    texts: HashSet<Arc<str>>,
    /// How many texts there were when unused ones were last dropped.
    count_after_cleanup: usize,
}

impl LabelTexts {
    /// Labels whose texts are stored once.
    pub(crate) fn intern_labels(&mut self, labels: BTreeMap<String, String>) -> NodeLabels {
        if self.texts.len()
            > self
                .count_after_cleanup
                .saturating_mul(2)
                .saturating_add(1_024)
        {
            self.texts.retain(|word| Arc::strong_count(word) > 1);
            self.count_after_cleanup = self.texts.len();
        }
        let word = |(key, value)| (self.intern(key), self.intern(value));
        NodeLabels(labels.into_iter().map(word).collect())
    }

    fn intern(&mut self, text: String) -> Arc<str> {
        if let Some(known) = self.texts.get(text.as_str()) {
            return Arc::clone(known);
        }
        let word: Arc<str> = text.into();
        self.texts.insert(Arc::clone(&word));
        word
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_stored_once_and_dropped_with_its_last_label() {
        let mut words = LabelTexts::default();
        let of = |value: &str| BTreeMap::from([("zone".to_owned(), value.to_owned())]);
        let (a, b) = (words.intern_labels(of("a")), words.intern_labels(of("a")));
        assert_eq!((a.label("zone"), a.label("rack")), (Some("a"), None));
        let same = |a: &NodeLabels, b: &NodeLabels| {
            Arc::ptr_eq(a.get("zone").unwrap(), b.get("zone").unwrap())
        };
        assert!(same(&a, &b));
        assert_eq!(a.to_map(), of("a"));
        for i in 0..5_000 {
            drop(words.intern_labels(of(&i.to_string())));
        }
        assert!(words.texts.len() < 2_100, "{}", words.texts.len());
        assert!(same(&a, &words.intern_labels(of("a"))));
    }
}
