//! A witness inside the database: writes down each claim in the claim's own transaction, with
//! whether its lane was closed. The claim holds the lane's lock, so what it sees is what was decided
//! (ruling 29). The service knows nothing of it.

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
create trigger witness_claims_again after update on public.outbox
    for each row when (new.lease > old.lease) execute function witness.note_claim();
create trigger witness_claims_at_once after insert on public.outbox
    for each row when (new.lease > 0) execute function witness.note_claim();
";

/// Places the witness; before anything is claimed.
pub async fn place_witness(pool: &PgPool) {
    pool.execute(WITNESS).await.unwrap();
}
