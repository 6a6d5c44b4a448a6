//! Leasing rows as they are put into the outbox: by the append that records their occurrence, and by the
//! worker that spreads what was too much for it. The row is written once, with its lease.
//!
//! It is the claim of ruling 29: each lane it leases from is locked, together with everybody but a
//! removal, and the order of the commits decides. It never waits for a lane.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use chrono::{DateTime, Utc};
use domain::payload::FormPart;
use domain::signature::WebhookSecret;
use domain::time::Timestamp;
use domain::trigger::Trigger;
use sqlx::{FromRow, PgConnection};
use tokio::time::Instant;
use uuid::Uuid;
use vault::responses::StoredResponse;
use vault::{DataKey, DataKeys, KeySubject, secrets};

use crate::claim::{CommittedClaim, LeasedRow};
use crate::compose::{ComposedDeliveries, build_bodies, compose, freeze, payload};
use crate::dispatch::Dispatcher;
use crate::due::not_held;
use crate::limits::SendReservation;
use crate::outbox::{NewLease, NewOutboxRow, OutboxRow, new_lease};
use crate::settings::DeliveryError;

/// A new submission, and what its deliveries are composed from.
pub struct SubmissionParts<'a> {
    /// What was answered.
    pub response: &'a StoredResponse,
    /// What seals it.
    pub key: &'a DataKey,
    /// Its form.
    pub form: &'a FormPart,
}

/// Submissions by whose data they are.
pub(crate) type SubmissionsBySubject<'a, 'b> = HashMap<KeySubject, &'a SubmissionParts<'b>>;

/// Where bodies are composed from.
pub(crate) enum BodySource<'a, 'b> {
    /// From submissions that are at hand: nothing is read.
    AtHand(&'a SubmissionsBySubject<'a, 'b>),
    /// From the vault, as in a claim.
    Vault,
}

/// What is leased in one transaction.
pub(crate) struct RowLeasing {
    pub(crate) dispatch: Arc<Dispatcher>,
    pub(crate) now: DateTime<Utc>,
}

impl RowLeasing {
    /// Leases what of these can be sent now; the rest waits.
    pub(crate) async fn lease(
        &self,
        connection: &mut PgConnection,
        rows: Vec<OutboxRow>,
        source: BodySource<'_, '_>,
    ) -> Result<(CommittedClaim, Vec<OutboxRow>), DeliveryError> {
        let lanes = open_lanes(connection, &rows, self.now, &source).await?;
        let (leased, rest) = self.reserve(rows, &lanes);
        let rows: Vec<OutboxRow> = leased.iter().map(|one| one.row.clone()).collect();
        let composed = match source {
            BodySource::AtHand(submissions) => {
                self.compose(connection, &rows, (submissions, &lanes)).await?
            }
            BodySource::Vault => {
                compose(&self.dispatch.courier, connection, &rows, self.now.into()).await?
            }
        };
        Ok((
            CommittedClaim { leased, composed, claimed_at: (self.now.into(), Instant::now()) },
            rest,
        ))
    }

    /// The rows of what is leased, each with its body.
    pub(crate) fn rows<'a>(
        &'a self,
        taken: &'a CommittedClaim,
    ) -> impl Iterator<Item = NewOutboxRow> + 'a {
        let end = self.now + self.dispatch.courier.settings.scale.lease();
        taken.leased.iter().map(move |one| {
            let body = taken.composed.bodies.get(&one.row.delivery_id);
            let row = OutboxRow {
                body_id: body.map(|body| body.body_id),
                body_sha256: body.map(|body| body.sha256.to_vec()),
                ..one.row.clone()
            };
            let lease = Some(NewLease { token: one.lease, leased_at: self.now });
            NewOutboxRow { row, due_at: end, lease }
        })
    }

    /// Makes room for as many of these as the limits allow; the rest waits.
    fn reserve(
        &self,
        rows: Vec<OutboxRow>,
        lanes: &HashMap<Uuid, OpenLane>,
    ) -> (Vec<LeasedRow>, Vec<OutboxRow>) {
        let candidates = rows
            .iter()
            .filter_map(|row| Some(row.candidate(lanes.get(&row.lane_id)?.host.clone())))
            .collect();
        let mut rooms: HashMap<Uuid, Arc<SendReservation>> =
            self.dispatch.limits.reserve(candidates).into_iter().collect();
        let (mut leased, mut rest) = (Vec::new(), Vec::new());
        for mut row in rows {
            match rooms.remove(&row.delivery_id) {
                Some(room) => {
                    row.tries = 1;
                    let lease = new_lease(&*self.dispatch.courier.entropy);
                    leased.push(LeasedRow { row, lease, reservation: room });
                }
                None => rest.push(row),
            }
        }
        (leased, rest)
    }

    /// Builds and freezes the bodies, from what is at hand.
    async fn compose(
        &self,
        connection: &mut PgConnection,
        rows: &[OutboxRow],
        (submissions, lanes): (&SubmissionsBySubject<'_, '_>, &HashMap<Uuid, OpenLane>),
    ) -> Result<ComposedDeliveries, DeliveryError> {
        let courier = &self.dispatch.courier;
        let now = Timestamp::from(self.now);
        let subjects: HashSet<KeySubject> = rows.iter().map(OutboxRow::subject).collect();
        let keys: DataKeys = subjects
            .into_iter()
            .filter_map(|subject| Some((subject, submissions.get(&subject)?.key.clone())))
            .collect();
        let build = |row: &OutboxRow| {
            let SubmissionParts { response, form, .. } = submissions.get(&row.subject())?;
            payload(Trigger::FormSubmitted, (*form).clone(), response, (None, None))
        };
        let built = build_bodies(rows, build, (courier, now));
        let bodies = freeze(connection, courier, (&keys, rows), (built, now)).await?;
        let mut secrets: HashMap<Uuid, WebhookSecret> = HashMap::new();
        let mut targets = HashMap::new();
        for row in rows {
            let Some(lane) = lanes.get(&row.lane_id) else { continue };
            targets.entry(row.lane_id).or_insert_with(|| lane.target_url.as_str().into());
            if !secrets.contains_key(&row.firm_id) {
                let secret = lane.secret.as_deref();
                let wrapping = courier.keyring.wrapping();
                let opened = secret.and_then(|sealed| secrets::open(wrapping, row.firm_id, sealed));
                secrets.extend(opened.map(|secret| (row.firm_id, secret)));
            }
        }
        Ok(ComposedDeliveries { keys, bodies, secrets, targets, step_headers: HashMap::new() })
    }
}

/// A lane that may be leased from.
#[derive(FromRow)]
struct OpenLane {
    lane_id: Uuid,
    host: String,
    target_url: String,
    /// The signing secret of its firm, sealed.
    secret: Option<Vec<u8>>,
}

/// Those of the lanes of these rows that are open and have nothing due, locked against their removal;
/// without those that a removal has locked. For an append, a firm with unspread occurrences has work that
/// comes first.
async fn open_lanes(
    connection: &mut PgConnection,
    rows: &[OutboxRow],
    now: DateTime<Utc>,
    source: &BodySource<'_, '_>,
) -> Result<HashMap<Uuid, OpenLane>, sqlx::Error> {
    if rows.is_empty() {
        return Ok(HashMap::new());
    }
    let lanes: BTreeSet<Uuid> = rows.iter().map(|row| row.lane_id).collect();
    let open: Vec<OpenLane> = sqlx::query_as(concat!(
        "with open as materialized (
             select lane_id, firm_id, host from lanes
              where lane_id = any($1) and cancel_cause is null and paused_at is null
                and (due_at is null or due_at > $2)
                and ",
        not_held!(),
        "       and not ($3 and exists (select from unspread u where u.firm_id = lanes.firm_id))
                for key share skip locked)
         select open.lane_id, open.host, h.target_url, s.secret
           from open
           join hooks h on h.hook_id = open.lane_id
           left join webhook_secrets s on s.firm_id = open.firm_id"
    ))
    .bind(lanes.into_iter().collect::<Vec<_>>())
    .bind(now)
    .bind(matches!(source, BodySource::AtHand(_)))
    .fetch_all(connection)
    .await?;
    Ok(open.into_iter().map(|lane| (lane.lane_id, lane)).collect())
}
