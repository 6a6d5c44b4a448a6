-- The work queue of deliveries: lanes, their wakes, the outbox, and what is not spread into it yet.
-- Only the deliverer crate writes these tables.

-- A lane is written when its subscription changes, and when it has work that waits: 0001_log.sql
-- explains the settings.
create table lanes (
    lane_id       uuid        not null,
    firm_id       uuid        not null,
    kind          text        not null,
    host          text        not null,
    due_at        timestamptz,
    paused_at     timestamptz,
    cancel_cause  text,
    gone          jsonb,
    constraint lanes_pkey primary key (lane_id),
    constraint lanes_kind_check check (kind in ('hook', 'step'))
) with (
    autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 200,
    autovacuum_vacuum_cost_delay = 0
);
comment on table lanes is
    'One lane per subscription, and one per firm and host for workflow steps. A claim and a '
    'removal both lock the lane, so the order of their commits decides.';
comment on column lanes.host is
    'Host of the receiver. The number of attempts in flight per host is limited over all lanes.';
comment on column lanes.due_at is
    'Time at which the next work that nobody has leased is due. Null if there is none.';
comment on column lanes.paused_at is
    'Time at which the firm was suspended. The claim skips the lane until the firm is back.';
comment on column lanes.cancel_cause is
    'Set when the subscription is removed. The remaining deliveries are cancelled with this cause.';
comment on column lanes.gone is
    'The last delivery that ended with 410, if no later delivery succeeded.';
create index lanes_due_idx on lanes (due_at)
    where due_at is not null and cancel_cause is null and paused_at is null;
create index lanes_firm_idx on lanes (firm_id);
create index lanes_closed_idx on lanes (due_at)
    where due_at is not null and cancel_cause is not null;
create index lanes_paused_idx on lanes (paused_at)
    where due_at is not null and paused_at is not null;

-- No key on lane_id: two transactions that wake one lane must not wait for each other.
create table lane_wakes (
    wake_id bigint not null generated always as identity,
    lane_id uuid   not null,
    constraint lane_wakes_pkey primary key (wake_id)
) with (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0
);
comment on table lane_wakes is
    'Lanes that have new work. A claim takes the wake and the lane together, so whoever queues work '
    'waits for no lane.';

-- A row is inserted, leased and deleted within a second. A lease changes indexed columns, so the
-- fillfactor saves no write to an index here. 0001_log.sql explains the other settings.
create table outbox (
    delivery_id   uuid        not null,
    lane_id       uuid        not null,
    firm_id       uuid        not null,
    occurrence_id uuid        not null,
    trigger       text        not null,
    form_id       uuid        not null,
    response_id   uuid        not null,
    report_id     uuid,
    booking_id    uuid,
    position      bigint      not null,
    due_at        timestamptz not null,
    sequence      bigint      not null default 0,
    tries         integer     not null default 0,
    lease         bigint,
    leased_at     timestamptz,
    body_id       uuid,
    body_sha256   bytea,
    tries_max     integer     not null,
    step          jsonb,
    replay_id     uuid,
    traceparent   text,
    constraint outbox_pkey primary key (delivery_id),
    constraint outbox_lease_check check ((leased_at is null) = (lease is null))
) with (
    fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0,
    autovacuum_analyze_threshold = 5000
);
comment on table outbox is
    'Deliveries that have not ended. The table is a work queue, not a read model: it is never '
    'rebuilt.';
comment on column outbox.occurrence_id is
    'The occurrence to deliver. A workflow step has none and holds its delivery_id here.';
comment on column outbox.report_id is 'The report that the occurrence is about, if any.';
comment on column outbox.booking_id is 'The call that the occurrence is about, if any.';
comment on column outbox.position is
    'Position of the event that led to the delivery. Orders the deliveries of a lane that are due '
    'at one time.';
comment on column outbox.due_at is
    'Time at which the next try is due, or at which the lease of the running try ends.';
comment on column outbox.sequence is
    'Sequence of the last event of the stream, 0 before the first. The next event takes the number '
    'after it.';
comment on column outbox.tries is 'Number of tries that were claimed.';
comment on column outbox.lease is
    'Fencing token of the running try: a random number of 63 bits. Null between tries.';
comment on column outbox.leased_at is
    'Time at which the running try was claimed. Null between tries.';
comment on column outbox.body_id is 'The frozen body. Null until the first try.';
comment on column outbox.tries_max is 'Number of tries after which the delivery has failed.';
comment on column outbox.step is
    'The order of a workflow step. Null for the delivery of a subscription.';
comment on column outbox.replay_id is
    'The replay that sends the delivery again after its end. Null for every other delivery.';
comment on column outbox.traceparent is
    'Trace context of the report that led to the delivery, if it was traced. The tries are spans of '
    'that trace.';
-- A delivery that is leased where it is queued, and arrives, is in none of the indexes of waiting rows.
create index outbox_waiting_idx on outbox (lane_id, due_at, position) where leased_at is null;
create index outbox_response_idx on outbox (firm_id, response_id) where leased_at is null;
create index outbox_leases_idx on outbox (due_at) where leased_at is not null;
create index outbox_replay_idx on outbox (replay_id) where replay_id is not null;

create table unspread (
    firm_id       uuid   not null,
    position      bigint not null,
    occurrence_id uuid   not null,
    constraint unspread_pkey primary key (firm_id, position)
) with (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0
);
comment on table unspread is
    'Occurrences whose deliveries are not in the outbox yet: their transaction had too many, or '
    'found no room to lease any. Any process spreads them, the firms in turn.';
