//! The requests at receivers, compared with the attempts in the log.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use sqlx::PgPool;
use uuid::Uuid;

use super::{Request, Run};

/// A try may be sent so long after its claim (ruling 29), so two may come so much closer together
/// than their leases.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);

/// Tries of a delivery (contract, section Retries).
const TRIES: usize = 8;

/// The claims and the body hashes that the log has of a sent delivery.
struct Known {
    claims: usize,
    sha256: HashSet<String>,
}

pub(super) async fn violations(run: &Run<'_>) -> Vec<String> {
    let known = known(run.pool).await;
    let mut by_delivery: HashMap<Uuid, Vec<&Request>> = HashMap::new();
    for request in run.requests {
        by_delivery.entry(request.delivery_id).or_default().push(request);
    }
    let mut found = Vec::new();
    for (delivery_id, mut requests) in by_delivery {
        requests.sort_by_key(|request| request.arrived);
        let why = match known.get(&delivery_id) {
            None => Some("I1: a request is of no delivery".to_owned()),
            Some(known) => of_one(&requests, known, run.lease),
        };
        found.extend(why.map(|why| format!("{why} ({delivery_id})")));
    }
    found
}

fn of_one(requests: &[&Request], known: &Known, lease: Duration) -> Option<String> {
    let bodies: HashSet<[u8; 32]> = requests.iter().map(|request| request.sha256).collect();
    if bodies.len() > 1 {
        return Some("I2: a delivery came with different bytes".to_owned());
    }
    if known.sha256.iter().any(|told| bodies.iter().any(|body| hex::encode(body) != *told)) {
        return Some("I2: history tells of other bytes than came".to_owned());
    }
    if requests.len() > TRIES {
        return Some(format!("I3: a delivery came {} times", requests.len()));
    }
    if requests.len() > known.claims {
        return Some(format!("I4: {} requests of {} claims", requests.len(), known.claims));
    }
    requests.windows(2).find(|pair| overlap(pair[0], pair[1], lease)).map(|pair| {
        let apart = pair[1].arrived.duration_since(pair[0].arrived);
        format!("I9: two sends of a delivery overlap, {apart:?} apart")
    })
}

/// Whether the second began before the first had ended, and before its lease can have.
fn overlap(first: &Request, second: &Request, lease: Duration) -> bool {
    let under_way = first.ended.is_none_or(|ended| ended > second.arrived);
    under_way && second.arrived.duration_since(first.arrived) + CONNECT_WITHIN < lease
}

async fn known(pool: &PgPool) -> HashMap<Uuid, Known> {
    let rows: Vec<(Uuid, i64, Vec<String>)> = sqlx::query_as(
        "select d.aggregate_id::uuid,
                (select count(*) from witness.claims c where c.delivery_id = d.aggregate_id::uuid),
                array(select distinct e.payload->'DeliveryAttempted'->>'body_sha256'
                        from events e
                       where e.aggregate_type = 'Delivery' and e.aggregate_id = d.aggregate_id
                         and e.payload->'DeliveryAttempted'->>'body_sha256' is not null)
           from (select distinct aggregate_id from events where aggregate_type = 'Delivery') d",
    )
    .fetch_all(pool)
    .await
    .unwrap();
    rows.into_iter()
        .map(|(id, claims, sha256)| {
            let claims = usize::try_from(claims).unwrap();
            (id, Known { claims, sha256: sha256.into_iter().collect() })
        })
        .collect()
}
