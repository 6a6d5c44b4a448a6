-- The log: what happened, append only. Its one writer and reader is the eventstore crate.
create table events (
    position       bigint      generated always as identity (cache 1),
    aggregate_type text        not null,
    aggregate_id   text        not null,
    sequence       bigint      not null,
    event_type     text        not null,
    event_version  text        not null,
    payload        json        not null,
    metadata       json        not null,
    firm_id        uuid        not null,
    event_id       uuid        not null,
    recorded_at    timestamptz not null,
    digest         bytea       not null,
    constraint events_pkey primary key (aggregate_type, aggregate_id, sequence),
    constraint events_position_key unique (position),
    constraint events_sequence_check check (sequence > 0),
    constraint events_digest_check check (octet_length(digest) = 32)
);
comment on table events is 'The append-only log. Everything else follows from it.';
comment on column events.position is 'Place in the log; drawn after the transaction id, see events_draw_xid.';
comment on column events.payload is 'json, not jsonb: kept as it was written, numbers and all.';
comment on column events.digest is 'SHA-256 over the canonical bytes (RFC 8785) of the other columns but position.';

-- Fan-out reads occurrences only, a small part of the log.
create index events_occurrences_idx on events (position) where aggregate_type = 'Occurrence';
-- And the eraser the few erasures.
create index events_erasures_idx on events (position) where aggregate_type = 'Response';

-- A transaction draws its id before its first position, so that a reader can tell from transaction
-- ids alone which positions are settled.
create function events_draw_xid() returns trigger language plpgsql as $$
begin
    perform pg_current_xact_id();
    return null;
end $$;
create trigger events_draw_xid before insert on events
    for each statement execute function events_draw_xid();

create function events_refuse_change() returns trigger language plpgsql as $$
begin
    raise exception 'the log is append-only: % refused', tg_op using errcode = 'insufficient_privilege';
end $$;
create trigger events_refuse_change before update or delete or truncate on events
    for each statement execute function events_refuse_change();
revoke update, delete, truncate on events from public;

-- How far each follower of the log has come.
create table checkpoints (
    name     text   not null,
    position bigint not null,
    constraint checkpoints_pkey primary key (name)
);
comment on table checkpoints is 'One row per follower; locked while it works, so that one process follows at a time.';

create table rebuilds (
    model      text        not null,
    rebuilt_at timestamptz not null,
    position   bigint      not null,
    digest     text        not null,
    constraint rebuilds_pkey primary key (model)
);
comment on table rebuilds is 'When each read model was last made anew from the log, up to where, and what its rows came to.';
