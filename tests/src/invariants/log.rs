//! Rules that the log and the tables must keep between them.

use sqlx::PgPool;
use uuid::Uuid;

use super::Acknowledged;

/// A rule, and the statement that counts its violations.
const RULES: [(&str, &str); 17] = [
    (
        "something waits in a lane that neither has a due time nor was woken",
        "select count(*) from outbox o join lanes l using (lane_id)
          where o.leased_at is null and l.due_at is null
            and not exists (select from lane_wakes w where w.lane_id = o.lane_id)",
    ),
    ("I1: an occurrence does not list a subscription that its match saw", MISSING),
    ("I1: an occurrence lists a subscription that its match did not see", SURPLUS),
    ("I1: a delivery is in no list", UNLISTED),
    ("I1: what was made anew is of no delivery, or of another subscription's", STRAY_REISSUE),
    (
        "I3: tries are not 1, 2, 3, and so on, to eight at most",
        "select count(*) from (
           select from events where event_type = 'DeliveryAttempted'
              and payload->'DeliveryAttempted'->>'late' is null
              and payload->'DeliveryAttempted'->>'replay_id' is null group by aggregate_id
           having max((payload->'DeliveryAttempted'->>'number')::int) <> count(*)
               or count(distinct payload->'DeliveryAttempted'->>'number') <> count(*)
               or count(*) > 8) x",
    ),
    (
        "I3: a delivery was claimed more than eight times",
        "select count(*) from witness.claims where number > 8",
    ),
    ("I4: a claim came after the removal", "select count(*) from witness.claims where lane_closed"),
    ("I5: something follows the end of a delivery", AFTER_THE_END),
    (
        "I6: a subscription was removed twice, or something follows its removal",
        "select count(*) from events r join events e using (aggregate_type, aggregate_id)
          where r.event_type = 'SubscriptionRemoved' and e.sequence > r.sequence",
    ),
    (
        "I6: a subscription is removed in its table alone, in its lane alone, or in the log alone",
        "select count(*) from hooks h join lanes l on l.lane_id = h.hook_id
          where (h.removed_at is null) <> (l.cancel_cause is null)
             or (h.removed_at is not null) <> exists (
                select from events e where e.aggregate_type = 'Subscription'
                   and e.aggregate_id = h.hook_id::text and e.event_type = 'SubscriptionRemoved')",
    ),
    (
        "I6: a removal has no entry in the audit log, or more than one",
        "select count(*) from events e
          where e.event_type = 'SubscriptionRemoved'
            and e.position <= (select max(position) from checkpoints where name = 'audit_log')
            and (select count(*) from audit_log a
                  where a.position = e.position and a.action = 'hook_removed') <> 1",
    ),
    (
        "I6: a revocation has no entry in the audit log, or more than one",
        "select count(*) from events e
          where e.event_type = 'KeyRevoked'
            and e.position <= (select max(position) from checkpoints where name = 'audit_log')
            and (select count(*) from audit_log a
                  where a.position = e.position and a.action = 'key_revoked') <> 1",
    ),
    (
        "I6: a chain of the audit log is broken",
        "select count(*) from (
             select sequence, entry, previous_hash, hash, row_number() over chain as place,
                    coalesce(lag(hash) over chain, decode(repeat('00', 32), 'hex')) as before
               from audit_log window chain as (partition by firm_id order by sequence)) c
          where sequence <> place or previous_hash <> before or hash <> sha256(before || entry)",
    ),
    (
        "a revoked key has a live subscription",
        "select count(*) from hooks h join key_auth k using (key_id)
          where h.removed_at is null and k.revoked_at is not null",
    ),
    ("I7: history is not what the log says", ANOTHER_HISTORY),
    ("I9: a delivery was claimed while another claim of it held", OVERLAPPING_CLAIMS),
];

/// The subscriptions that each occurrence should list, and the ones that it lists. An occurrence
/// may list a subscription that its own transaction removes before, or one that overlaps, or not.
macro_rules! expected_and_listed {
    ($difference:literal) => {
        concat!(
            "with occurrences as (
               select aggregate_id, position, firm_id, payload->'OccurrenceRecorded' as told
                 from events where event_type = 'OccurrenceRecorded'),
             hooks as (
               select c.aggregate_id, c.firm_id, c.position as born, r.position as died,
                      c.payload->'SubscriptionCreated' as told
                 from events c
                 left join events r on r.aggregate_type = c.aggregate_type
                  and r.aggregate_id = c.aggregate_id and r.event_type = 'SubscriptionRemoved'
                where c.event_type = 'SubscriptionCreated'),
             expected as (
               select o.aggregate_id as occurrence_id, h.aggregate_id as hook_id,
                      h.died < o.position as may_lack
                 from occurrences o join hooks h on h.firm_id = o.firm_id
                  and h.told->>'trigger' = o.told->>'trigger'
                  and h.born <= (o.told->>'seen')::bigint
                  and (h.died is null or (o.told->>'seen')::bigint < h.died)
                  and coalesce(h.told->>'form_id', o.told->>'form_id') = o.told->>'form_id'
                where coalesce(o.told->>'silent', 'false') = 'false'),
             listed as (
               select o.aggregate_id as occurrence_id, hook_id
                 from occurrences o, json_array_elements_text(o.told->'hooks') hook_id)
             select count(*) from (",
            $difference,
            ") x"
        )
    };
}

const MISSING: &str = expected_and_listed!(
    "select occurrence_id, hook_id from expected where may_lack is not true
     except all select * from listed"
);
const SURPLUS: &str = expected_and_listed!(
    "select * from listed except all select occurrence_id, hook_id from expected"
);

/// The first event of a delivery's stream names its occurrence and subscription. Repairs and
/// reissues name them by events of their own.
const UNLISTED: &str = "
with begun as (
  select coalesce(payload->'DeliveryAttempted', payload->'DeliveryCancelled')->'of' as of
    from events where aggregate_type = 'Delivery' and sequence = 1
     and event_type in ('DeliveryAttempted', 'DeliveryCancelled'))
select count(*) from begun where not exists (
  select from events o
   where o.aggregate_type = 'Occurrence' and o.aggregate_id = begun.of->>'occurrence_id'
     and (o.payload->'OccurrenceRecorded'->'hooks')::jsonb ? (begun.of->>'hook_id'))";

/// A reissue is beside the one delivery per subscription, and names that delivery.
const STRAY_REISSUE: &str = "
with made as (
  select payload->'DeliveryReissued'->>'reissue_of' as of,
         payload->'DeliveryReissued'->'consignment' as sent
    from events where event_type = 'DeliveryReissued')
select count(*) from made
 where not exists (
       select from events e where e.aggregate_type = 'Delivery' and e.aggregate_id = made.of
          and e.sequence = 1
          and (coalesce(e.payload->'DeliveryQueued', e.payload->'DeliveryReissued'->'consignment',
                        e.payload->'DeliveryAttempted'->'of', e.payload->'DeliveryCancelled'->'of'
                       )->>'hook_id') = made.sent->>'hook_id')";

const AFTER_THE_END: &str = "
select count(*) from (
  select sum(case when event_type = 'DeliveryCancelled' then 1
                  when event_type = 'DeliveryAttempted'
                   and payload->'DeliveryAttempted'->>'next_try_at' is null then 1
                  else 0 end)
         over (partition by aggregate_id order by sequence
               rows between unbounded preceding and 1 preceding) as ends
    from events where aggregate_type = 'Delivery'
     and event_type <> 'DeliveryReplayed'
     and payload->'DeliveryAttempted'->>'replay_id' is null
     and payload->'DeliveryAttempted'->>'late' is distinct from 'noted') x
 where ends > 0";

/// Where each delivery stands by the last event of its stream.
const ANOTHER_HISTORY: &str = "
with last as (
  select distinct on (aggregate_id) aggregate_id, event_type, payload->'DeliveryAttempted' as try
    from events where aggregate_type = 'Delivery'
     and payload->'DeliveryAttempted'->>'late' is distinct from 'noted'
   order by aggregate_id, sequence desc),
told as (
  select aggregate_id as delivery_id,
         case when event_type = 'DeliveryCancelled' or try->>'cancelled' is not null then 'cancelled'
              when event_type in ('DeliveryQueued', 'DeliveryReissued') or try->>'next_try_at' is not null then 'pending'
              when try->>'outcome' = 'delivered' then 'delivered'
              else 'failed' end as state
    from last)
select count(*) from told full join deliveries d on d.delivery_id::text = told.delivery_id
 where d.state is distinct from coalesce(told.state, 'pending')";

/// A claim may follow another when that one was recorded, or its lease had ended.
const OVERLAPPING_CLAIMS: &str = "
select count(*) from witness.claims first
  join witness.claims second on second.delivery_id = first.delivery_id
   and second.number > first.number
 where second.claimed_at < first.ends_at
   and not exists (
       select from events e where e.aggregate_type = 'Delivery'
          and e.aggregate_id = first.delivery_id::text and e.event_type = 'DeliveryAttempted'
          and (e.payload->'DeliveryAttempted'->>'number')::int = first.number
          and e.payload->'DeliveryAttempted'->>'outcome' <> 'interrupted'
          and e.payload->'DeliveryAttempted'->>'late' is null)";

/// Every rule that does not hold.
pub(super) async fn violations(pool: &PgPool) -> Vec<String> {
    let mut found = Vec::new();
    for (rule, statement) in RULES {
        let count: i64 = sqlx::query_scalar(statement).fetch_one(pool).await.unwrap();
        if count > 0 {
            found.push(format!("{rule}: {count}"));
        }
    }
    found
}

/// I8: acknowledged writes that the database does not know.
pub(super) async fn forgotten(pool: &PgPool, acknowledged: &Acknowledged) -> Vec<String> {
    let hooks = "select count(*) from unnest($1) t(id)
                  where not exists (select from hooks where hook_id = t.id)";
    let removed = "select count(*) from unnest($1) t(id)
                    where exists (select from hooks where hook_id = t.id and removed_at is null)";
    let responses = "select count(*) from unnest($1) t(id) where not exists (
                       select from events where event_type = 'OccurrenceRecorded'
                          and payload->'OccurrenceRecorded'->>'response_id' = t.id::text)";
    let revoked = "select count(*) from unnest($1) t(id)
                    where not exists (
                       select from key_auth where key_id = t.id and revoked_at is not null)";
    let mut found = Vec::new();
    let asked: [(&str, &str, &[Uuid]); 4] = [
        ("I8: an acknowledged subscription is not there", hooks, &acknowledged.hooks),
        ("I8: an acknowledged removal did not last", removed, &acknowledged.removed_hooks),
        ("I8: an acknowledged revocation did not last", revoked, &acknowledged.revoked_keys),
        ("I8: an acknowledged response is not there", responses, &acknowledged.responses),
    ];
    for (rule, statement, ids) in asked {
        let count: i64 = sqlx::query_scalar(statement).bind(ids).fetch_one(pool).await.unwrap();
        if count > 0 {
            found.push(format!("{rule}: {count}"));
        }
    }
    found
}
