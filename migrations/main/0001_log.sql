-- The log: one append-only table, and the cursors of its followers.
-- Only the eventstore crate writes these tables.

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
    recorded_at    timestamptz not null,
    digest         bytea       not null,
    constraint events_pkey primary key (aggregate_type, aggregate_id, sequence),
    constraint events_position_key unique (position),
    constraint events_sequence_check check (sequence > 0),
    constraint events_digest_check check (octet_length(digest) = 32)
);
comment on table events is 'The append-only log. The read models follow from it.';
comment on column events.position is
    'Place in the log. A transaction draws its id before its first position: see events_draw_xid.';
comment on column events.aggregate_type is 'Kind of the stream, for example Delivery.';
comment on column events.aggregate_id is 'Id of the stream within its kind.';
comment on column events.sequence is
    'Place in the stream, from 1 without gaps. The primary key lets one writer take it.';
comment on column events.event_version is 'Version of the shape of the payload.';
comment on column events.payload is
    'The event. The type is json, not jsonb, so that the text stays as it was written.';
comment on column events.metadata is 'The context of the event: its actor, cause and trace.';
comment on column events.digest is
    'SHA-256 over the canonical bytes (RFC 8785) of all other columns but position.';

-- The eraser reads only erasures, which are rare.
create index events_erasures_idx on events (position) where aggregate_type = 'Response';

-- `analyze` samples 300 rows for each unit of the largest statistics target among the columns.
-- The default of 100 means 30,000 random pages, which take one to three seconds once the table
-- outgrows the server's memory. The snapshot of `analyze` keeps dead rows of all tables meanwhile,
-- and lanes alone leave a thousand of them a second.
-- Every table that grows without bound is asked by key, so a target of 10 is enough for its plans.
-- The files of the other tables set the target in the same way.
alter table events
    alter position set statistics 10, alter aggregate_type set statistics 10,
    alter aggregate_id set statistics 10, alter sequence set statistics 10,
    alter event_type set statistics 10, alter event_version set statistics 10,
    alter payload set statistics 10, alter metadata set statistics 10,
    alter firm_id set statistics 10,
    alter recorded_at set statistics 10, alter digest set statistics 10;

create function events_draw_xid() returns trigger language plpgsql as $$
begin
    perform pg_current_xact_id();
    return null;
end $$;
comment on function events_draw_xid() is
    'Draws the transaction id before the first position. The fence needs this order: transaction '
    'ids alone then tell which positions are settled.';
create trigger events_draw_xid before insert on events
    for each statement execute function events_draw_xid();

create function events_refuse_change() returns trigger language plpgsql as $$
begin
    raise exception 'the log is append-only: % refused', tg_op using errcode = 'insufficient_privilege';
end $$;
comment on function events_refuse_change() is 'Refuses every change of a row of the log.';
create trigger events_refuse_change before update or delete or truncate on events
    for each statement execute function events_refuse_change();
revoke update, delete, truncate on events from public;

-- Updates touch no indexed column. Free space on the page keeps them out of the index.
-- Tables with such short-lived rows are vacuumed after a number of dead rows, not after a share of
-- the table. The number bounds the space that dead rows take, however large the table is.
-- These tables are small, so their vacuum needs no pauses (a cost delay of 0).
-- The server setting `autovacuum_naptime` matters more: see docs/how-to/run-in-production.md.
create table checkpoints (
    name     text   not null,
    position bigint not null,
    constraint checkpoints_pkey primary key (name)
) with (
    fillfactor = 10, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200,
    autovacuum_vacuum_cost_delay = 0
);
comment on table checkpoints is
    'The cursor of each follower of the log. A follower locks its row while it works, so one '
    'process follows at a time.';
comment on column checkpoints.name is 'Name of the follower.';
comment on column checkpoints.position is
    'The follower has taken in every event up to this position.';
