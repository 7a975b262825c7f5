//! The rows of one resource and their last changes, as the watch cache of kube-apiserver keeps them.
//! Pure.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, OnceLock};

use axum::body::Bytes;
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use trellis_gang::key::Key;

use super::comparable_row::{ComparableRow, Look};
use crate::endpoint::visibility::table::TableRow;

/// Most changes to keep beside those of the last look. A reader that is further behind starts with a
/// new list.
const MAX_CHANGES: usize = 50_000;

/// Interval between renewals of all positions.
const POSITIONS_INTERVAL: SignedDuration = SignedDuration::from_secs(60);

/// Version of a row or of a list, as in `metadata.resourceVersion`. Each change has one of its own.
/// They begin at the time of the first look in microseconds, so that another leader does not repeat
/// them.
pub(in crate::endpoint::visibility) type Version = i64;

/// Version of a list whose rows the cache has not had. No watch can begin at it.
pub(in crate::endpoint::visibility) const UNKNOWN_VERSION: Version = 1;

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
    pub(super) row: VersionedRow<T>,
    /// The event as JSON, serialized once for all readers.
    pub(super) json: OnceLock<Bytes>,
}

/// A row, and the version of its last change.
#[derive(Debug)]
pub(super) struct VersionedRow<T> {
    pub(super) row: Arc<T>,
    pub(super) version: Version,
}

/// The rows of one resource, and their last changes.
#[derive(Debug)]
pub(super) struct WatchCache<T> {
    rows: BTreeMap<Key, VersionedRow<T>>,
    /// Version of the rows. None: there are none yet.
    version: Option<Version>,
    /// The first version from which a reader can go on.
    first_version: Version,
    changes: VecDeque<Arc<Change<T>>>,
    /// Number of the snapshot whose rows these are.
    snapshot: u64,
    /// Time at which all positions were renewed.
    positions_renewed: Timestamp,
}

/// The moment of a look at the rows.
#[derive(Clone, Copy, Debug)]
pub(in crate::endpoint::visibility) struct SnapshotMoment {
    /// Number of the snapshot. A later snapshot has a higher number.
    pub(in crate::endpoint::visibility) number: u64,
    /// Time of its data.
    pub(in crate::endpoint::visibility) time: Timestamp,
}

impl<T> Clone for VersionedRow<T> {
    fn clone(&self) -> Self {
        Self {
            row: self.row.clone(),
            version: self.version,
        }
    }
}

impl<T> Default for WatchCache<T> {
    fn default() -> Self {
        Self {
            rows: BTreeMap::new(),
            version: None,
            first_version: 0,
            changes: VecDeque::new(),
            snapshot: 0,
            positions_renewed: Timestamp::UNIX_EPOCH,
        }
    }
}

impl<T: TableRow + ComparableRow + Clone> WatchCache<T> {
    /// Takes the rows of a snapshot, and gives each the version of its last change. Returns the
    /// version of the whole. Does nothing with those of an earlier snapshot.
    pub(super) fn update(&mut self, moment: SnapshotMoment, rows: &mut [T]) -> Version {
        if self.version.is_some() && self.snapshot >= moment.number {
            return UNKNOWN_VERSION;
        }
        let look = Look {
            now: moment.time,
            renews_positions: moment.time.duration_since(self.positions_renewed)
                >= POSITIONS_INTERVAL,
        };
        if look.renews_positions {
            self.positions_renewed = moment.time;
        }
        let is_first = self.version.is_none();
        let begin = self.version.unwrap_or(UNKNOWN_VERSION);
        let mut version = begin.max(moment.time.as_microsecond());
        let mut old = std::mem::take(&mut self.rows);
        for row in rows {
            let key = Key::from_meta(row.metadata());
            let known = old.remove(&key);
            let entry = match known {
                Some(known) if known.row.is_same(row, look) => known,
                known => {
                    let kind = match known {
                        Some(_) => ChangeKind::Modified,
                        None => ChangeKind::Added,
                    };
                    let mut new = row.clone();
                    if let Some(known) = &known {
                        new.keep_late_position(&known.row, look);
                    }
                    version = version.saturating_add(1);
                    let entry = VersionedRow {
                        row: Arc::new(new),
                        version,
                    };
                    // The first rows are no changes.
                    if !is_first {
                        self.record(kind, entry.clone());
                    }
                    entry
                }
            };
            row.metadata_mut().resource_version = Some(entry.version.to_string());
            self.rows.insert(key, entry);
        }
        for gone in old.into_values() {
            version = version.saturating_add(1);
            let row = gone.row;
            self.record(ChangeKind::Deleted, VersionedRow { row, version });
        }
        version = version.saturating_add(1);
        if is_first {
            self.first_version = version;
        }
        self.version = Some(version);
        self.snapshot = moment.number;
        self.forget(begin);
        version
    }

    fn record(&mut self, kind: ChangeKind, row: VersionedRow<T>) {
        self.changes.push_back(Arc::new(Change {
            kind,
            row,
            json: OnceLock::new(),
        }));
    }

    /// Drops old changes, but none after this version.
    fn forget(&mut self, last: Version) {
        while self.changes.len() > MAX_CHANGES
            && let Some(first) = self.changes.front().map(|first| first.row.version)
            && first <= last
        {
            self.changes.pop_front();
            self.first_version = first;
        }
    }

    /// Version of the rows. None: there are no rows yet.
    pub(super) fn version(&self) -> Option<Version> {
        self.version
    }

    /// Number of the snapshot whose rows these are.
    pub(super) fn snapshot(&self) -> u64 {
        self.snapshot
    }

    /// Returns all rows.
    pub(super) fn rows(&self) -> impl Iterator<Item = &VersionedRow<T>> {
        self.rows.values()
    }

    /// Returns at most `count` changes since a version, the oldest first. None: the version is of
    /// another leader, or its changes are no longer kept.
    pub(super) fn changes_since(
        &self,
        version: Version,
        count: usize,
    ) -> Option<Vec<Arc<Change<T>>>> {
        if version < self.first_version || version > self.version? {
            return None;
        }
        let first = self
            .changes
            .partition_point(|change| change.row.version <= version);
        Some(self.changes.range(first..).take(count).cloned().collect())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use trellis_api::visibility::JobState;

    use super::*;

    fn at(number: u64) -> SnapshotMoment {
        SnapshotMoment {
            number,
            // Snapshots may have the same time.
            time: Timestamp::UNIX_EPOCH,
        }
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

    fn by_name(rows: impl IntoIterator<Item = JobState>) -> BTreeMap<Key, JobState> {
        let rows = rows.into_iter();
        rows.map(|row| (Key::from_meta(&row.metadata), row))
            .collect()
    }

    proptest! {
        #[test]
        fn changes_since_any_version_lead_to_the_last_rows(
            mut lists in proptest::collection::vec(rows(), 1..12), count in 1..5_usize,
        ) {
            let plain = lists.clone();
            let mut cache = WatchCache::default();
            let mut versions = Vec::new();
            for (number, rows) in (1..).zip(&mut lists) {
                versions.push(cache.update(at(number), rows));
            }
            let last = by_name(cache.rows().map(|entry| (*entry.row).clone()));
            for (version, rows) in versions.into_iter().zip(plain) {
                let mut known = by_name(rows);
                let mut at = version;
                // A reader gets some changes, breaks off, and goes on from the last of them.
                loop {
                    let changes = cache.changes_since(at, count).unwrap();
                    let Some(end) = changes.last() else { break };
                    at = end.row.version;
                    for change in changes {
                        let key = Key::from_meta(&change.row.row.metadata);
                        let old = match change.kind {
                            ChangeKind::Deleted => known.remove(&key),
                            _ => known.insert(key, (*change.row.row).clone()),
                        };
                        prop_assert_eq!(old.is_none(), change.kind == ChangeKind::Added);
                    }
                }
                prop_assert_eq!(&known, &last);
            }
        }

        #[test]
        fn each_change_has_a_version_of_its_own(
            mut lists in proptest::collection::vec(rows(), 1..12),
        ) {
            let mut cache = WatchCache::default();
            let mut last = 0;
            for (number, rows) in (1..).zip(&mut lists) {
                let before = cache.version();
                let version = cache.update(at(number), rows);
                for change in before.and_then(|v| cache.changes_since(v, 99)).unwrap_or_default() {
                    prop_assert!(change.row.version > last);
                    last = change.row.version;
                }
                prop_assert!(version > last);
                let listed = rows.iter().map(|row| row.metadata.resource_version.clone());
                for own in listed {
                    prop_assert!(own.unwrap().parse::<Version>().unwrap() < version);
                }
            }
        }
    }

    #[test]
    fn reader_of_an_unknown_version_starts_anew() {
        let mut cache = WatchCache::default();
        assert!(cache.changes_since(0, 9).is_none());
        let first = cache.update(at(10), &mut [job(1, 1)]);
        let second = cache.update(at(20), &mut [job(1, 2)]);
        let late = cache.update(at(15), &mut []);
        assert_eq!(late, UNKNOWN_VERSION, "the rows of an older snapshot");
        assert_eq!(cache.version(), Some(second));
        for unknown in [0, late, first - 1, second + 1] {
            assert!(cache.changes_since(unknown, 9).is_none(), "{unknown}");
        }
        assert_eq!(cache.changes_since(first, 9).unwrap().len(), 1);
        assert!(cache.changes_since(second, 9).unwrap().is_empty());
    }

    #[test]
    fn cache_forgets_old_changes_but_none_of_the_last_look() {
        let mut cache = WatchCache::default();
        let many = MAX_CHANGES + 10;
        let jobs = |gpus: i64| -> Vec<JobState> {
            let names = 0..many;
            names
                .map(|name| JobState {
                    gpus,
                    ..JobState::new("ml", &name.to_string(), "q")
                })
                .collect()
        };
        let first = cache.update(at(1), &mut jobs(1));
        let second = cache.update(at(2), &mut jobs(2));
        assert_eq!(cache.changes_since(first, many + 1).unwrap().len(), many);
        cache.update(at(3), &mut jobs(3));
        assert!(cache.changes_since(first, 1).is_none());
        assert_eq!(cache.changes_since(second, many + 1).unwrap().len(), many);
    }
}
