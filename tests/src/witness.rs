//! A witness inside the database: writes down each claim in the claim's own transaction, with
//! whether its lane was closed. The claim holds the lane's lock, so it sees the decided state
//! (ruling 29). A claim that is given back is forgotten: nothing was sent. The service knows
//! nothing of the witness.

use sqlx::{Executor, PgPool};

const WITNESS: &str = "
create schema witness;
create table witness.claims (
    delivery_id uuid        not null,
    lease       bigint      not null,
    number      integer     not null,
    claimed_at  timestamptz not null,
    ends_at     timestamptz not null,
    lane_closed boolean     not null,
    primary key (delivery_id, lease)
);
create function witness.note_claim() returns trigger language plpgsql as $$
begin
    insert into witness.claims
    select new.delivery_id, new.lease, new.tries, new.leased_at, new.due_at,
           l.cancel_cause is not null
      from public.lanes l where l.lane_id = new.lane_id;
    return null;
end $$;
create function witness.note_given_back() returns trigger language plpgsql as $$
begin
    delete from witness.claims where delivery_id = old.delivery_id and lease = old.lease;
    return null;
end $$;
create trigger witness_claims_again after update on public.outbox
    for each row when (new.lease is distinct from old.lease and new.lease is not null)
    execute function witness.note_claim();
create trigger witness_claims_given_back after update on public.outbox
    for each row when (new.lease is null and new.tries < old.tries)
    execute function witness.note_given_back();
create trigger witness_claims_in_append after insert on public.outbox
    for each row when (new.lease is not null) execute function witness.note_claim();
";

/// Places the witness; before anything is claimed.
pub async fn place_witness(pool: &PgPool) {
    pool.execute(WITNESS).await.unwrap();
}
