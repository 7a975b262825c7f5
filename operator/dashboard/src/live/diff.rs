//! The rows that changed between two moments. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::row::{Reading, Row};

/// The rows of a list at one moment. Rows that did not change are shared with earlier moments.
#[derive(Debug)]
pub(crate) struct Rows<T>(BTreeMap<String, Arc<T>>);

/// The changes between two moments.
#[derive(Debug)]
pub(crate) struct RowChanges<T> {
    /// New rows, and rows with new content.
    pub(crate) changed: Vec<Arc<T>>,
    /// Names of rows that are gone.
    pub(crate) gone: Vec<String>,
}

impl<T> Clone for Rows<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Default for Rows<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T: Row> Rows<T> {
    /// Takes the rows of a new read. A row without news stays the row of `before`.
    pub(crate) fn renew<'r>(
        before: &Self,
        read: impl Iterator<Item = &'r Arc<T>>,
        reading: Reading,
    ) -> Self {
        let rows = read.map(|row| {
            let key = row.key();
            let old = before.0.get(&key);
            let old = old.filter(|old| Arc::ptr_eq(old, row) || old.is_same(row, reading));
            (key, old.unwrap_or(row).clone())
        });
        Self(rows.collect())
    }

    /// Returns what changed since `before`.
    pub(crate) fn changes_since(&self, before: &Self) -> RowChanges<T> {
        let is_known = |(key, row): &(&String, &Arc<T>)| {
            let old = before.0.get(*key);
            old.is_some_and(|old| Arc::ptr_eq(old, row))
        };
        let changed = self.0.iter().filter(|entry| !is_known(entry));
        let gone = before.0.keys().filter(|key| !self.0.contains_key(*key));
        RowChanges {
            changed: changed.map(|(_, row)| row.clone()).collect(),
            gone: gone.cloned().collect(),
        }
    }
}

impl<T: Row> Rows<T> {
    /// Returns the rows, in the order of their names.
    pub(crate) fn all(&self) -> Vec<&T> {
        self.0.values().map(Arc::as_ref).collect()
    }
}

impl<T> RowChanges<T> {
    pub(crate) fn is_empty(&self) -> bool {
        self.changed.is_empty() && self.gone.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde::Serialize;

    use super::*;

    #[derive(Clone, Debug, PartialEq, Serialize)]
    struct Number(u8, u8);

    impl Row for Number {
        fn key(&self) -> String {
            self.0.to_string()
        }
    }

    fn numbers() -> impl Strategy<Value = Vec<Number>> {
        let entries = proptest::collection::btree_map(0..12_u8, 0..3_u8, 0..12);
        entries.prop_map(|entries| entries.into_iter().map(|(k, v)| Number(k, v)).collect())
    }

    proptest! {
        #[test]
        fn changes_applied_to_the_old_rows_give_the_new_rows(old in numbers(), new in numbers()) {
            let now = Reading { now: k8s_openapi::jiff::Timestamp::UNIX_EPOCH, has_orders: true };
            let shared = |rows: &[Number]| -> Vec<_> { rows.iter().cloned().map(Arc::new).collect() };
            let before = Rows::renew(&Rows::default(), shared(&old).iter(), now);
            let after = Rows::renew(&before, shared(&new).iter(), now);
            let changes = after.changes_since(&before);
            let mut applied = before.0.clone();
            for key in &changes.gone {
                prop_assert!(applied.remove(key).is_some());
            }
            for row in &changes.changed {
                let old = applied.insert(row.key(), row.clone());
                prop_assert!(old.as_deref() != Some(row.as_ref()), "sent without news");
            }
            let mut expected = new;
            expected.sort_by_key(Number::key);
            let applied: Vec<Number> = applied.into_values().map(|row| (*row).clone()).collect();
            prop_assert_eq!(applied, expected);
        }
    }
}
