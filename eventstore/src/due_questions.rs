//! The questions that the [pulse](crate::Pulse) asks for the workers of a process.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;

/// A question of a worker: the time at which its work is first due.
#[derive(Debug)]
struct DueQuestion {
    /// A query of one value, a time or null.
    sql: &'static str,
    /// Counts the pulses that found work due.
    due: watch::Sender<u64>,
}

/// The questions of the workers of this process.
#[derive(Debug, Clone, Default)]
pub(crate) struct DueQuestions(Arc<Mutex<Vec<DueQuestion>>>);

impl DueQuestions {
    /// Adds a question. The receiver changes with each pulse that finds work due.
    pub(crate) fn add(&self, sql: &'static str) -> watch::Receiver<u64> {
        let (due, receiver) = watch::channel(0);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(DueQuestion { sql, due });
        receiver
    }

    /// Returns the queries. Questions of workers that have ended are dropped.
    pub(crate) fn queries(&self) -> Vec<&'static str> {
        let mut questions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        questions.retain(|question| !question.due.is_closed());
        questions.iter().map(|question| question.sql).collect()
    }

    /// Wakes the workers with these queries.
    pub(crate) fn wake(&self, queries: &[&'static str]) {
        let questions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for question in questions.iter().filter(|question| queries.contains(&question.sql)) {
            question.due.send_modify(|count| *count += 1);
        }
    }
}
