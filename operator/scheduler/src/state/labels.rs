//! Labels of nodes. A cluster has many labels and few distinct texts, so each text is stored once.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

/// A set of labels.
pub(crate) trait Labelled {
    /// The value of a label.
    fn label(&self, key: &str) -> Option<&str>;
}

impl Labelled for BTreeMap<String, String> {
    fn label(&self, key: &str) -> Option<&str> {
        self.get(key).map(String::as_str)
    }
}

/// The labels of a node, by key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Labels(Box<[(Arc<str>, Arc<str>)]>);

impl Labels {
    /// The value of a label.
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

impl Labelled for Labels {
    fn label(&self, key: &str) -> Option<&str> {
        self.get(key).map(|value| &**value)
    }
}

/// Every text that a label has as its key or value, and some that are no longer used. It uses the
/// standard hasher because users choose the texts.
#[derive(Debug, Default)]
pub(crate) struct Words {
    known: HashSet<Arc<str>>,
    /// How many texts there were when unused ones were last dropped.
    kept: usize,
}

impl Words {
    /// Labels whose texts are stored once.
    pub(crate) fn labels(&mut self, labels: BTreeMap<String, String>) -> Labels {
        if self.known.len() > self.kept.saturating_mul(2).saturating_add(1_024) {
            self.known.retain(|word| Arc::strong_count(word) > 1);
            self.kept = self.known.len();
        }
        let word = |(key, value)| (self.word(key), self.word(value));
        Labels(labels.into_iter().map(word).collect())
    }

    fn word(&mut self, text: String) -> Arc<str> {
        if let Some(known) = self.known.get(text.as_str()) {
            return Arc::clone(known);
        }
        let word: Arc<str> = text.into();
        self.known.insert(Arc::clone(&word));
        word
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_kept_once_and_as_long_as_a_label_has_them() {
        let mut words = Words::default();
        let of = |value: &str| BTreeMap::from([("zone".to_owned(), value.to_owned())]);
        let (a, b) = (words.labels(of("a")), words.labels(of("a")));
        assert_eq!((a.label("zone"), a.label("rack")), (Some("a"), None));
        let same =
            |a: &Labels, b: &Labels| Arc::ptr_eq(a.get("zone").unwrap(), b.get("zone").unwrap());
        assert!(same(&a, &b));
        assert_eq!(a.to_map(), of("a"));
        for i in 0..5_000 {
            drop(words.labels(of(&i.to_string())));
        }
        assert!(words.known.len() < 2_100, "{}", words.known.len());
        assert!(same(&a, &words.labels(of("a"))));
    }
}
