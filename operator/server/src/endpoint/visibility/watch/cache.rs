//! The rows of one resource and their last changes, as the watch cache of kube-apiserver keeps them.
//! Pure.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, OnceLock};

use axum::body::Bytes;
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use trellis_gang::key::Key;

use super::news::{Look, News};
use crate::endpoint::visibility::table::TableRow;

/// Most changes to keep. A reader that is further behind starts with a new list.
const MAX_CHANGES: usize = 50_000;

/// Interval between renewals of all positions.
const POSITIONS_INTERVAL: SignedDuration = SignedDuration::from_secs(60);

/// Most versions to keep.
const MAX_VERSIONS: usize = 1_000;

/// Version of a list: the time of its data in milliseconds, as `metadata.resourceVersion` says.
pub(super) type Version = i64;

/// A change of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub(super) enum ChangeKind {
    /// The row is new.
    Added,
    /// The row has other content.
    Modified,
    /// The row is gone. The change has its last content.
    Deleted,
}

/// A change of a row.
#[derive(Debug)]
pub(super) struct Change<T> {
    pub(super) kind: ChangeKind,
    pub(super) row: Arc<T>,
    /// Version of the list with this change.
    pub(super) version: Version,
    /// Version of the list before it.
    pub(super) before: Version,
    /// The event as JSON, serialized once for all readers.
    pub(super) json: OnceLock<Bytes>,
}

/// The rows of one resource, and their last changes.
#[derive(Debug)]
pub(super) struct WatchCache<T> {
    rows: BTreeMap<Key, Arc<T>>,
    /// The versions from which a reader can go on, the oldest first. Empty: there are no rows yet.
    versions: VecDeque<Version>,
    changes: VecDeque<Arc<Change<T>>>,
    /// Time at which all positions were renewed.
    positions_renewed: Timestamp,
}

impl<T> Default for WatchCache<T> {
    fn default() -> Self {
        Self {
            rows: BTreeMap::new(),
            versions: VecDeque::new(),
            changes: VecDeque::new(),
            positions_renewed: Timestamp::UNIX_EPOCH,
        }
    }
}

impl<T: TableRow + News + Clone> WatchCache<T> {
    /// Takes the rows of a moment. Ignores those of an earlier moment.
    pub(super) fn update(&mut self, at: Timestamp, rows: &[T]) {
        let version = at.as_millisecond();
        let before = self.versions.back().copied();
        if before.is_some_and(|before| before >= version) {
            return;
        }
        let look = Look {
            now: at,
            renews_positions: at.duration_since(self.positions_renewed) >= POSITIONS_INTERVAL,
        };
        if look.renews_positions {
            self.positions_renewed = at;
        }
        let mut old = std::mem::take(&mut self.rows);
        for row in rows {
            let key = Key::from_meta(row.metadata());
            let known = old.remove(&key);
            let kind = match &known {
                Some(known) if known.is_same(row, look) => None,
                Some(_) => Some(ChangeKind::Modified),
                None => Some(ChangeKind::Added),
            };
            let row = match (kind, known) {
                (None, Some(known)) => known,
                _ => Arc::new(row.clone()),
            };
            self.record(kind, &row, version, before);
            self.rows.insert(key, row);
        }
        for row in old.into_values() {
            self.record(Some(ChangeKind::Deleted), &row, version, before);
        }
        self.versions.push_back(version);
        self.forget();
    }

    /// Records a change since the version `before`. The first rows are no changes.
    fn record(
        &mut self,
        kind: Option<ChangeKind>,
        row: &Arc<T>,
        version: Version,
        before: Option<Version>,
    ) {
        if let (Some(kind), Some(before)) = (kind, before) {
            self.changes.push_back(Arc::new(Change {
                kind,
                row: row.clone(),
                version,
                before,
                json: OnceLock::new(),
            }));
        }
    }

    /// Drops old versions, and the changes that only their readers need.
    fn forget(&mut self) {
        while self.versions.len() > 1
            && (self.versions.len() > MAX_VERSIONS || self.changes.len() > MAX_CHANGES)
        {
            self.versions.pop_front();
            let first = self.versions.front().copied().unwrap_or_default();
            while self.changes.front().is_some_and(|c| c.version <= first) {
                self.changes.pop_front();
            }
        }
    }

    /// Version of the rows. None: there are no rows yet.
    pub(super) fn version(&self) -> Option<Version> {
        self.versions.back().copied()
    }

    /// Returns all rows.
    pub(super) fn rows(&self) -> impl Iterator<Item = &Arc<T>> {
        self.rows.values()
    }

    /// Returns the changes since a version, the oldest first. None: the version is unknown, or its
    /// changes are no longer kept.
    pub(super) fn changes_since(&self, version: Version) -> Option<Vec<Arc<Change<T>>>> {
        self.versions.binary_search(&version).ok()?;
        let first = self.changes.partition_point(|c| c.version <= version);
        Some(self.changes.range(first..).cloned().collect())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use trellis_api::visibility::JobState;

    use super::*;

    fn at(version: Version) -> Timestamp {
        Timestamp::from_millisecond(version).unwrap()
    }

    fn job(name: u8, gpus: i64) -> JobState {
        JobState {
            gpus,
            ..JobState::new("ml", &format!("job-{name}"), "default")
        }
    }

    fn rows() -> impl Strategy<Value = Vec<JobState>> {
        let rows = proptest::collection::btree_map(0..8_u8, 0..3_i64, 0..8);
        rows.prop_map(|rows| rows.into_iter().map(|(n, g)| job(n, g)).collect())
    }

    proptest! {
        #[test]
        fn changes_since_any_version_lead_to_the_last_rows(
            lists in proptest::collection::vec(rows(), 1..12),
        ) {
            let mut cache = WatchCache::default();
            for (version, rows) in (1..).zip(&lists) {
                cache.update(at(version), rows);
            }
            let last: BTreeMap<Key, JobState> = cache
                .rows()
                .map(|row| (Key::from_meta(&row.metadata), (**row).clone()))
                .collect();
            for (version, rows) in (1..).zip(&lists) {
                let mut known: BTreeMap<Key, JobState> =
                    rows.iter().map(|row| (Key::from_meta(&row.metadata), row.clone())).collect();
                for change in cache.changes_since(version).unwrap() {
                    prop_assert!(change.before >= version && change.version > change.before);
                    let key = Key::from_meta(&change.row.metadata);
                    let old = match change.kind {
                        ChangeKind::Deleted => known.remove(&key),
                        _ => known.insert(key, (*change.row).clone()),
                    };
                    prop_assert_eq!(old.is_none(), change.kind == ChangeKind::Added);
                }
                prop_assert_eq!(&known, &last);
            }
        }
    }

    #[test]
    fn reader_of_an_unknown_version_starts_anew() {
        let mut cache = WatchCache::default();
        assert!(cache.changes_since(0).is_none());
        cache.update(at(10), &[job(1, 1)]);
        cache.update(at(20), &[job(1, 2)]);
        cache.update(at(15), &[]);
        assert_eq!(cache.version(), Some(20), "older rows are ignored");
        for unknown in [0, 9, 11, 15, 21] {
            assert!(cache.changes_since(unknown).is_none(), "{unknown}");
        }
        assert_eq!(cache.changes_since(10).unwrap().len(), 1);
        assert!(cache.changes_since(20).unwrap().is_empty());
    }

    #[test]
    fn cache_forgets_old_changes_with_their_versions() {
        let mut cache = WatchCache::default();
        let last = i64::try_from(MAX_VERSIONS).unwrap() + 10;
        for version in 1..=last {
            cache.update(at(version), &[job(1, version)]);
        }
        assert_eq!(cache.versions.len(), MAX_VERSIONS);
        assert!(cache.changes_since(10).is_none());
        assert_eq!(cache.changes_since(11).unwrap().len(), MAX_VERSIONS - 1);
        assert_eq!(cache.changes.len(), MAX_VERSIONS - 1);
    }
}
