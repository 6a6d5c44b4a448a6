//! The invariants I1–I9 of docs/reference/cases.md, which hold after every run, whatever was
//! killed, cut or lost in it. They are asked of the log, of the witness of claims, of the
//! receivers' own records, and a second time of `verify deliveries`.
//!
//! I6 asks the audit log as far as it has followed. I7 is asked of history by itself, and of every
//! read model by making it anew.

mod log;
mod proof;
mod requests;
mod views;

use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};
use sqlx::PgPool;
use uuid::Uuid;

use crate::receiver::Received;

/// A request as a receiver saw it.
#[derive(Debug, Clone, Copy)]
pub struct Request {
    /// The delivery it says it is.
    pub delivery_id: Uuid,
    /// The hash of its body.
    pub sha256: [u8; 32],
    /// When it had arrived.
    pub arrived: Instant,
    /// When it was answered or given up.
    pub ended: Option<Instant>,
}

/// The writes that were acknowledged to callers.
#[derive(Debug, Default, Clone)]
pub struct Acknowledged {
    /// Subscriptions answered 201.
    pub hooks: Vec<Uuid>,
    /// Subscriptions whose removal was answered 200, by themselves or with their key.
    pub removed_hooks: Vec<Uuid>,
    /// Keys whose revocation was answered 200, or 404 after an answer that was lost.
    pub revoked_keys: Vec<Uuid>,
    /// Submitted responses answered 202.
    pub responses: Vec<Uuid>,
}

/// A run that has come to rest.
pub struct Run<'a> {
    /// Its main database, with its witness.
    pub pool: &'a PgPool,
    /// All that receivers saw.
    pub requests: &'a [Request],
    /// All that callers were told.
    pub acknowledged: &'a Acknowledged,
    /// How long a lease was.
    pub lease: Duration,
}

impl Request {
    /// A request in short.
    #[must_use]
    pub fn new(received: &Received) -> Self {
        Self {
            delivery_id: received.header("x-service-delivery").parse().unwrap(),
            sha256: Sha256::digest(&received.body).into(),
            arrived: received.arrived,
            ended: received.ended,
        }
    }
}

impl Run<'_> {
    /// The invariants that do not hold, by name. Empty if all is well.
    pub async fn violations(&self) -> Vec<String> {
        let mut found = log::violations(self.pool).await;
        found.extend(log::forgotten(self.pool, self.acknowledged).await);
        found.extend(requests::violations(self).await);
        found.extend(views::violations(self.pool).await);
        found
    }

    /// Fails unless everything holds.
    pub async fn assert_held(&self) {
        let mut violations = self.violations().await;
        // The proof reads the committed database. The open transaction of the checker's tests is
        // not in it.
        violations.extend(proof::violations(self.pool).await);
        assert!(violations.is_empty(), "{violations:#?}");
    }
}
