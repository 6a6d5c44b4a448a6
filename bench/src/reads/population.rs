//! The callers: equal firms, each with as many keys, forms and subscriptions as the contract
//! allows.
//!
//! Every firm and its owner are reported by intake. The first firm gets everybody's forms by
//! intake, its keys by the command that makes keys, and the subscriptions of its first key by `POST
//! /hooks`. The others get copies of these rows with ids and keys of their own, in the order of
//! their making, so that a firm's rows lie among the others'. The copies are in the tables that
//! reads look at, not in the log: nothing but reads may run on them.

use ::service::ingest;
use api::Service;
use api::intake::CloudEvent;
use axum::Router;
use domain::access::{ApiKey, KEYS_PER_FIRM};
use domain::subscription::Trigger;
use projector::forms::LISTED_FORMS_MAX;
use sqlx::{Executor, PgPool};
use uuid::Uuid;
use vault::{Entropy, SystemEntropy};

use crate::activity::{Firm, Founding, Told, made_up};
use crate::subscribing::{make_key, subscribe};
use crate::taking_in::take_in;

/// Subscriptions of a key, and so of its firm.
pub(super) const HOOKS: usize = 100;

/// Subscriptions of a key, once a firm's are spread over some of its keys.
pub(super) const FEW_HOOKS: usize = 10;

/// Keys of a firm that have so few.
const KEYS_WITH_FEW: usize = HOOKS / FEW_HOOKS;

/// Forms of a firm.
pub(super) const FORMS: usize = LISTED_FORMS_MAX as usize;

/// Keys of a firm.
pub(super) const KEYS: usize = KEYS_PER_FIRM as usize;

/// A key of the population.
struct Holder {
    id: Uuid,
    firm: Firm,
    key: ApiKey,
}

/// The keys, by the lists that they can ask for.
pub(super) struct Population {
    /// Every key.
    pub(super) keys: Vec<String>,
    /// Each firm's first key: the one that has subscriptions.
    pub(super) with_hooks: Vec<String>,
    /// Each firm's keys that have subscriptions once these are spread.
    pub(super) with_few_hooks: Vec<String>,
}

/// Spreads each firm's subscriptions, which are its first key's, over the first few of its keys.
pub(super) async fn spread(pool: &PgPool) -> Result<(), sqlx::Error> {
    sqlx::query(
        "update hooks h set key_id = k.key_id
           from (select hook_id, firm_id,
                        row_number() over (partition by firm_id order by created_position) as place
                   from hooks) as p
           join (select key_id, firm_id,
                        row_number() over (partition by firm_id order by name) as number
                   from key_auth) k
             on k.firm_id = p.firm_id and k.number = (p.place - 1) % $1 + 1
          where h.hook_id = p.hook_id",
    )
    .bind(KEYS_WITH_FEW as i64)
    .execute(pool)
    .await?;
    pool.execute("vacuum (analyze) hooks").await?;
    Ok(())
}

/// Makes so many firms.
pub(super) async fn populate(
    service: &Service,
    door: &Router,
    firms: u32,
) -> anyhow::Result<Population> {
    let without_forms = made_up(firms).founding_lines().filter(|line| !line.is_about("form."));
    let founding = Founding::new(without_forms)?;
    ingest::take_in_lines(service, founding.lines.as_slice()).await?;
    let firms: Vec<Firm> = founding.firms().collect();
    let model = by_the_service(service, door, firms[0]).await?;
    let copied: Vec<Holder> =
        firms[1..].iter().flat_map(|firm| (0..KEYS).map(|_| Holder::new(*firm))).collect();
    let pool = service.store.pool();
    copy_keys(pool, firms[0].id, &copied).await?;
    copy_forms(pool, firms[0].id).await?;
    copy_hooks(pool, firms[0].id, copied.iter().step_by(KEYS)).await?;
    // As autovacuum would have done long ago.
    for table in ["firms", "forms", "key_auth", "hooks"] {
        pool.execute(format!("vacuum (analyze) {table}").as_str()).await?;
    }
    let keys: Vec<String> = model
        .into_iter()
        .chain(copied.into_iter().map(|holder| holder.key.as_str().to_owned()))
        .collect();
    let firms = || keys.chunks(KEYS);
    Ok(Population {
        with_hooks: firms().map(|of_firm| of_firm[0].clone()).collect(),
        with_few_hooks: firms().flat_map(|of_firm| &of_firm[..KEYS_WITH_FEW]).cloned().collect(),
        keys,
    })
}

/// Gives the first firm everything by the service itself; answers its keys.
async fn by_the_service(
    service: &Service,
    door: &Router,
    firm: Firm,
) -> anyhow::Result<Vec<String>> {
    take_in(service, forms(firm)?).await?;
    let mut made = Vec::with_capacity(KEYS);
    for number in 0..KEYS {
        made.push(make_key(service, firm, &format!("Key {number:02}")).await?);
    }
    for number in 0..HOOKS {
        let target = format!("http://127.0.0.1:8090/hooks/catch/4711042/{number:032x}/");
        subscribe(door, &made[0], (Trigger::FormSubmitted, target)).await?;
    }
    Ok(made)
}

/// The forms of so many firms that they are enough, as if all were this firm's.
fn forms(firm: Firm) -> anyhow::Result<Vec<CloudEvent>> {
    let made = made_up(FORMS as u32).founding_lines().filter(|line| line.is_about("form.created"));
    let of_firm = |told: Told| CloudEvent { firm_id: firm.id, ..told.event };
    made.take(FORMS).map(|line| Told::new(&line).map(of_firm)).collect()
}

impl Holder {
    fn new(firm: Firm) -> Self {
        Self {
            id: SystemEntropy.new_id(),
            firm,
            key: ApiKey::from_bytes(SystemEntropy.new_secret()),
        }
    }
}

/// Each firm's keys have the names and times of the model's.
async fn copy_keys(pool: &PgPool, model: Uuid, copied: &[Holder]) -> Result<(), sqlx::Error> {
    let numbers = (0..copied.len()).map(|number| (number % KEYS) as i64 + 1);
    sqlx::query(
        "insert into key_auth (key_id, firm_id, member_id, name, prefix, sha256, created_at)
         select c.key_id, c.firm_id, c.member_id, m.name, c.prefix, c.sha256, m.created_at
           from unnest($2::uuid[], $3::uuid[], $4::uuid[], $5::text[], $6::bytea[], $7::bigint[])
                as c(key_id, firm_id, member_id, prefix, sha256, number)
           join (select name, created_at, row_number() over (order by created_at) as number
                   from key_auth where firm_id = $1) m using (number)
          order by c.number, c.firm_id",
    )
    .bind(model)
    .bind(copied.iter().map(|holder| holder.id).collect::<Vec<_>>())
    .bind(copied.iter().map(|holder| holder.firm.id).collect::<Vec<_>>())
    .bind(copied.iter().map(|holder| holder.firm.owner).collect::<Vec<_>>())
    .bind(copied.iter().map(|holder| holder.key.prefix()).collect::<Vec<_>>())
    .bind(copied.iter().map(|holder| holder.key.hash().to_vec()).collect::<Vec<_>>())
    .bind(numbers.collect::<Vec<_>>())
    .execute(pool)
    .await
    .map(drop)
}

async fn copy_forms(pool: &PgPool, model: Uuid) -> Result<(), sqlx::Error> {
    let forms: Vec<Uuid> =
        sqlx::query_scalar("select form_id from forms where firm_id = $1 order by created_at")
            .bind(model)
            .fetch_all(pool)
            .await?;
    for form_id in forms {
        sqlx::query(
            "insert into forms
                    (firm_id, form_id, title, slug, url, status, hidden_fields, created_at)
             select f.firm_id, gen_random_uuid(), m.title, m.slug, m.url, m.status,
                    m.hidden_fields, m.created_at
               from firms f cross join forms m
              where f.firm_id <> $1 and m.firm_id = $1 and m.form_id = $2",
        )
        .bind(model)
        .bind(form_id)
        .execute(pool)
        .await?;
    }
    Ok(())
}

async fn copy_hooks(
    pool: &PgPool,
    model: Uuid,
    holders: impl Iterator<Item = &Holder>,
) -> Result<(), sqlx::Error> {
    let (firm_ids, key_ids): (Vec<Uuid>, Vec<Uuid>) =
        holders.map(|holder| (holder.firm.id, holder.id)).unzip();
    sqlx::query(
        "insert into hooks (hook_id, firm_id, key_id, trigger, target_url, form_id, created_at,
                            created_position, sequence)
         select gen_random_uuid(), c.firm_id, c.key_id, m.trigger, m.target_url, m.form_id,
                m.created_at, m.created_position, m.sequence
           from hooks m cross join unnest($2::uuid[], $3::uuid[]) as c(firm_id, key_id)
          where m.firm_id = $1
          order by m.created_position, c.firm_id",
    )
    .bind(model)
    .bind(firm_ids)
    .bind(key_ids)
    .execute(pool)
    .await
    .map(drop)
}
