//! Leasing of new rows: the append that records an occurrence leases its rows, and so does the
//! spread worker. Each row is inserted with its lease, so it is written once.
//!
//! Leasing is a claim in the sense of ruling 29 (in flight at removal): the order of the commits
//! decides. Its key-share lock on a lane conflicts only with `for update`, which changes of the
//! subscription or its firm take. It never waits for a lane.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use chrono::{DateTime, Utc};
use domain::delivery::signature::WebhookSecret;
use domain::subscription::Trigger;
use domain::values::Timestamp;
use eventstore::{EventPositions, JoinedWrites};
use sqlx::PgConnection;
use tokio::time::Instant;
use uuid::Uuid;
use vault::responses::NewSubmission;
use vault::{DataKeys, KeySubject, secrets};

use super::compose::{
    BuiltBodies, ComposedDeliveries, compose_deliveries, freeze_bodies, payload_bytes,
};
use super::leased::{LeasedClaim, LeasedRow};
use super::open_lanes::{AfterUnspread, OpenLane, lock_open, require_open};
use crate::error::DeliveryError;
use crate::limits::{SendLimits, SendReservation};
use crate::outbox::row::{NewLease, NewOutboxRow, OutboxRow, new_lease};
use crate::settings::DelivererContext;

/// Submissions by the subject of their data.
pub(crate) type SubmissionsBySubject<'a, 'b> = HashMap<KeySubject, &'a NewSubmission<'b>>;

/// The source of bodies.
pub(crate) enum BodySource<'a, 'b> {
    /// Submissions at hand. The vault is not read, and the bodies are among these joined writes.
    AtHand {
        submissions: &'a SubmissionsBySubject<'a, 'b>,
        writes: &'a mut JoinedWrites,
        positions: EventPositions,
    },
    /// The vault, read as in a claim from the outbox.
    Vault,
}

/// Leases rows in one transaction.
pub(crate) struct RowLeasing<'a> {
    pub(crate) deliverer: &'a DelivererContext,
    pub(crate) limits: &'a SendLimits,
    pub(crate) now: DateTime<Utc>,
}

/// Leased rows, and rows that wait for a claim.
pub(crate) struct LeasedAndWaitingRows {
    pub(crate) leased: LeasedClaim,
    pub(crate) waiting: Vec<OutboxRow>,
}

impl RowLeasing<'_> {
    /// Leases the rows whose lanes are open and whose limits have room. Freezes their bodies.
    pub(crate) async fn lease_rows(
        &self,
        connection: &mut PgConnection,
        rows: Vec<OutboxRow>,
        source: BodySource<'_, '_>,
    ) -> Result<LeasedAndWaitingRows, DeliveryError> {
        let lanes = self.open_lanes(connection, &rows, &source).await?;
        let (leased, waiting) = self.reserve_rows(rows, &lanes);
        let rows: Vec<&OutboxRow> = leased.iter().map(|one| &one.row).collect();
        let composed = match source {
            BodySource::AtHand { submissions, writes, positions } => {
                if positions == EventPositions::OfStatement {
                    let used: BTreeSet<Uuid> = rows.iter().map(|row| row.lane_id).collect();
                    let open: Vec<&OpenLane> = used.iter().filter_map(|id| lanes.get(id)).collect();
                    require_open(writes, &open, self.now);
                }
                self.compose_at_hand(writes, &rows, submissions, &lanes)?
            }
            BodySource::Vault => {
                compose_deliveries(self.deliverer, connection, &rows, self.now.into()).await?
            }
        };
        let leased = LeasedClaim {
            leased,
            composed,
            claimed_at: self.now.into(),
            claimed_instant: Instant::now(),
        };
        Ok(LeasedAndWaitingRows { leased, waiting })
    }

    /// The open lanes of these rows. They are locked, unless a later statement appends: it checks
    /// and locks them then.
    async fn open_lanes(
        &self,
        connection: &mut PgConnection,
        rows: &[OutboxRow],
        source: &BodySource<'_, '_>,
    ) -> Result<HashMap<Uuid, OpenLane>, sqlx::Error> {
        let lanes = rows.iter().map(|row| row.lane_id).collect();
        match source {
            BodySource::AtHand { positions: EventPositions::OfStatement, .. } => {
                let life = self.deliverer.store.life().life_number();
                self.deliverer.lanes.find_open(connection, life, lanes, self.now).await
            }
            BodySource::AtHand { .. } => {
                lock_open(connection, lanes, self.now, AfterUnspread::Yes).await
            }
            BodySource::Vault => lock_open(connection, lanes, self.now, AfterUnspread::No).await,
        }
    }

    /// The leased rows as they are inserted, each with its body.
    pub(crate) fn new_rows(&self, claim: &LeasedClaim) -> impl Iterator<Item = NewOutboxRow> {
        let end = self.now + self.deliverer.settings.scale.scaled_lease();
        claim.leased.iter().map(move |one| {
            let body = claim.composed.bodies.get(&one.row.delivery_id);
            let row = OutboxRow {
                body_id: body.map(|body| body.body_id),
                body_sha256: body.map(|body| body.sha256.to_vec()),
                ..one.row.clone()
            };
            let lease = Some(NewLease { token: one.lease, leased_at: self.now });
            NewOutboxRow { row, due_at: end, lease }
        })
    }

    /// Reserves capacity for as many rows as the limits allow. The other rows wait.
    fn reserve_rows(
        &self,
        rows: Vec<OutboxRow>,
        lanes: &HashMap<Uuid, OpenLane>,
    ) -> (Vec<LeasedRow>, Vec<OutboxRow>) {
        let candidates = rows
            .iter()
            .filter_map(|row| Some(row.claim_candidate(lanes.get(&row.lane_id)?.host.clone())))
            .collect();
        let mut reservations: HashMap<Uuid, Arc<SendReservation>> =
            self.limits.reserve_capacity(candidates).deliveries.into_iter().collect();
        let mut leased = Vec::new();
        let mut waiting = Vec::new();
        for mut row in rows {
            match reservations.remove(&row.delivery_id) {
                Some(reservation) => {
                    row.tries = 1;
                    let lease = new_lease(&*self.deliverer.entropy);
                    leased.push(LeasedRow { row, lease, reservation });
                }
                None => waiting.push(row),
            }
        }
        (leased, waiting)
    }

    /// Builds and freezes the bodies of submissions at hand.
    fn compose_at_hand(
        &self,
        writes: &mut JoinedWrites,
        rows: &[&OutboxRow],
        submissions: &SubmissionsBySubject<'_, '_>,
        lanes: &HashMap<Uuid, OpenLane>,
    ) -> Result<ComposedDeliveries, DeliveryError> {
        let deliverer = self.deliverer;
        let now = Timestamp::from(self.now);
        let subjects: HashSet<KeySubject> = rows.iter().map(|row| row.subject()).collect();
        let keys: DataKeys = subjects
            .into_iter()
            .filter_map(|subject| Some((subject, submissions.get(&subject)?.key.clone())))
            .collect();
        let build = |row: &OutboxRow| {
            let NewSubmission { response, form, .. } = submissions.get(&row.subject())?;
            payload_bytes(Trigger::FormSubmitted, (*form).clone(), response, None, None)
        };
        let built = BuiltBodies::new(rows, build, &*deliverer.entropy, now);
        let bodies = freeze_bodies(deliverer, writes, &keys, built)?;
        let mut secrets: HashMap<Uuid, WebhookSecret> = HashMap::new();
        let mut targets = HashMap::new();
        for row in rows {
            let Some(lane) = lanes.get(&row.lane_id) else { continue };
            targets.entry(row.lane_id).or_insert_with(|| lane.target_url.as_str().into());
            if !secrets.contains_key(&row.firm_id) {
                let secret = lane.secret.as_deref();
                let wrapping = deliverer.keyring.wrapping_key();
                let opened = secret
                    .and_then(|encrypted| secrets::open_secret(wrapping, row.firm_id, encrypted));
                secrets.extend(opened.map(|secret| (row.firm_id, secret)));
            }
        }
        let step_secrets = HashMap::new();
        Ok(ComposedDeliveries { keys, bodies, secrets, targets, step_secrets, notices: None })
    }
}
