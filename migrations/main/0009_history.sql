-- The history of deliveries. The tries of a delivery are the events of its stream in the log.
-- Only the projector crate writes this table, as it follows the log.

-- The table reaches a billion rows: a vacuum after a fifth of them would be too late.
-- A vacuum goes through all indexes. Without pauses it takes a tenth of two busy cores for half a
-- minute, and events wait for up to five seconds. The cost delay of 10 prevents this.
create table deliveries (
    delivery_id   uuid        not null,
    firm_id       uuid        not null,
    hook_id       uuid,
    occurrence_id uuid,
    run_id        uuid,
    step_id       uuid,
    trigger       text        not null,
    form_id       uuid        not null,
    response_id   uuid        not null,
    state         text        not null,
    cause         text,
    created_at    timestamptz not null,
    next_try_at   timestamptz,
    body_id       uuid,
    body_sha256   text,
    ended_at      timestamptz,
    purged        boolean     not null default false,
    host          text,
    reissue_of    uuid,
    constraint deliveries_pkey primary key (delivery_id),
    constraint deliveries_state_check check (
        state in ('pending', 'delivered', 'failed', 'cancelled')),
    constraint deliveries_cause_check check ((state = 'cancelled') = (cause is not null)),
    constraint deliveries_kind_check check (
        (hook_id is null) = (occurrence_id is null) and (hook_id is null) <> (run_id is null)
        and (run_id is null) = (step_id is null))
) with (
    autovacuum_vacuum_scale_factor = 0.01, autovacuum_analyze_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 100000, autovacuum_vacuum_cost_delay = 10
);
comment on table deliveries is
    'The state of each delivery: of an occurrence to a subscription, or of a workflow step.';
comment on column deliveries.hook_id is 'The subscription. Null for a workflow step.';
comment on column deliveries.occurrence_id is 'The occurrence. Null for a workflow step.';
comment on column deliveries.run_id is
    'The workflow run of a step. Null for the delivery of a subscription.';
comment on column deliveries.step_id is
    'The workflow step. Null for the delivery of a subscription.';
comment on column deliveries.cause is 'The cause of a cancellation.';
comment on column deliveries.next_try_at is 'Time at which the next try is due, if one is.';
comment on column deliveries.body_id is 'The frozen body. Null until the first try.';
comment on column deliveries.body_sha256 is 'SHA-256 of the body in hexadecimal.';
comment on column deliveries.purged is
    'Whether the vault no longer holds the data of the delivery, because it was kept long enough.';
comment on column deliveries.host is
    'Host of a workflow step. The host of another delivery follows from its subscription.';
comment on column deliveries.reissue_of is
    'The delivery that an operator reissued as this one. Null for every other delivery.';
create index deliveries_ended_idx on deliveries (ended_at)
    where (body_id is not null or run_id is not null) and not purged;
create index deliveries_body_idx on deliveries (body_id) where body_id is not null and not purged;
-- The lists ask for the newest deliveries of a subscription or firm, of all states or of one.
create index deliveries_hook_idx on deliveries (hook_id, created_at desc, delivery_id desc);
create index deliveries_firm_idx on deliveries (firm_id, created_at desc, delivery_id desc);
create index deliveries_pending_idx on deliveries (firm_id, created_at desc, delivery_id desc)
    where state = 'pending';
create index deliveries_failed_idx on deliveries (firm_id, created_at desc, delivery_id desc)
    where state = 'failed';
create index deliveries_cancelled_idx on deliveries (firm_id, created_at desc, delivery_id desc)
    where state = 'cancelled';
create index deliveries_steps_idx on deliveries (firm_id, created_at desc, delivery_id desc)
    where run_id is not null;
-- 0001_log.sql says where the statistics targets come from.
alter table deliveries
    alter delivery_id set statistics 10, alter firm_id set statistics 10,
    alter hook_id set statistics 10, alter occurrence_id set statistics 10,
    alter run_id set statistics 10, alter step_id set statistics 10,
    alter trigger set statistics 10, alter form_id set statistics 10,
    alter response_id set statistics 10, alter state set statistics 10,
    alter cause set statistics 10, alter created_at set statistics 10,
    alter next_try_at set statistics 10, alter body_id set statistics 10,
    alter body_sha256 set statistics 10, alter ended_at set statistics 10,
    alter purged set statistics 10, alter host set statistics 10,
    alter reissue_of set statistics 10;
