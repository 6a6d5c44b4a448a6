//! Rows that a process remembers, so that it does not read them again.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::life::LifeNumber;

/// Rows that are remembered, at most. With long lists and URLs they take some tens of megabytes.
const ROWS_MAX: usize = 10_000;

/// A row older than this is read again. A rebuild may have repaired it.
const REMEMBERED_FOR: Duration = Duration::from_secs(60);

/// Rows by their keys, as they were read from the server in its present life. A row never changes,
/// or its user checks that it is still so.
#[derive(Debug)]
pub struct RememberedRows<K, V>(Mutex<RowsOfLife<K, V>>);

#[derive(Debug)]
struct RowsOfLife<K, V> {
    life: LifeNumber,
    rows: HashMap<K, (Instant, V)>,
}

impl<K, V> Default for RememberedRows<K, V> {
    fn default() -> Self {
        Self(Mutex::new(RowsOfLife { life: LifeNumber::default(), rows: HashMap::new() }))
    }
}

impl<K: Copy + Eq + Hash, V: Clone> RememberedRows<K, V> {
    /// Returns these rows if all of them are remembered.
    #[must_use]
    pub fn get_all<'a>(
        &self,
        life: LifeNumber,
        now: Instant,
        keys: impl ExactSizeIterator<Item = &'a K>,
    ) -> Option<HashMap<K, V>>
    where
        K: 'a,
    {
        let count = keys.len();
        Some(self.get(life, now, keys)).filter(|known| known.len() == count)
    }

    /// Returns the remembered ones of these rows.
    #[must_use]
    pub fn get<'a>(
        &self,
        life: LifeNumber,
        now: Instant,
        keys: impl IntoIterator<Item = &'a K>,
    ) -> HashMap<K, V>
    where
        K: 'a,
    {
        let known = self.rows_of(life);
        let young = |key: &K| {
            let (read_at, row) = known.rows.get(key)?;
            (now.saturating_duration_since(*read_at) < REMEMBERED_FOR).then(|| (*key, row.clone()))
        };
        keys.into_iter().filter_map(young).collect()
    }

    /// Remembers rows that were read in this life. If there are too many, forgets all others.
    pub fn remember(
        &self,
        life: LifeNumber,
        now: Instant,
        rows: impl ExactSizeIterator<Item = (K, V)>,
    ) {
        let mut known = self.rows_of(life);
        if known.rows.len() + rows.len() > ROWS_MAX {
            known.rows.clear();
        }
        known.rows.extend(rows.map(|(key, row)| (key, (now, row))));
    }

    /// Forgets these rows.
    pub fn forget<'a>(&self, keys: impl IntoIterator<Item = &'a K>)
    where
        K: 'a,
    {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for key in keys {
            known.rows.remove(key);
        }
    }

    /// The rows of this life. Those of another are dropped.
    fn rows_of(&self, life: LifeNumber) -> MutexGuard<'_, RowsOfLife<K, V>> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.life != life {
            *known = RowsOfLife { life, rows: HashMap::new() };
        }
        known
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIFE: LifeNumber = LifeNumber::FIRST;

    #[test]
    fn too_many_rows_make_room() {
        let known = RememberedRows::default();
        let now = Instant::now();
        known.remember(LIFE, now, (0..ROWS_MAX).map(|row| (row, "old")));
        assert_eq!(known.get(LIFE, now, &[7]), HashMap::from([(7, "old")]));
        known.remember(LIFE, now, [(ROWS_MAX, "new")].into_iter());
        let both = [7, ROWS_MAX];
        assert_eq!(known.get(LIFE, now, &both), HashMap::from([(ROWS_MAX, "new")]));
        assert_eq!(known.get_all(LIFE, now, both.iter()), None);
        known.forget(&[ROWS_MAX]);
        assert!(known.get(LIFE, now, &[ROWS_MAX]).is_empty());
    }

    #[test]
    fn a_row_is_read_again_in_time() {
        let known = RememberedRows::default();
        let now = Instant::now();
        known.remember(LIFE, now, [(1, "row")].into_iter());
        assert!(known.get(LIFE, now + REMEMBERED_FOR, &[1]).is_empty());
    }

    #[test]
    fn another_life_remembers_nothing() {
        let known = RememberedRows::default();
        let now = Instant::now();
        known.remember(LIFE, now, [(1, "row")].into_iter());
        assert!(known.get(LifeNumber::default(), now, &[1]).is_empty());
        assert!(known.get(LIFE, now, &[1]).is_empty());
    }
}
