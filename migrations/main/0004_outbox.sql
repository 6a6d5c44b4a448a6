-- The work queue of deliveries. Its one writer is the deliverer crate.
create table lanes (
    lane_id      uuid        not null,
    firm_id      uuid        not null,
    kind         text        not null,
    host         text        not null,
    due_at       timestamptz,
    paused_at    timestamptz,
    running      integer     not null default 0,
    running_until timestamptz,
    cancel_cause text,
    gone         jsonb,
    constraint lanes_pkey primary key (lane_id),
    constraint lanes_kind_check check (kind in ('hook', 'step'))
);
comment on table lanes is 'One per subscription, and one per firm and host for workflow steps. Claim and removal lock it, so the order of their commits decides.';
comment on column lanes.host is 'Where its work goes; what is in flight there has limits over all lanes.';
comment on column lanes.due_at is 'When its next work is due; null when there is none.';
comment on column lanes.paused_at is 'Since when its firm is suspended: nothing is claimed.';
comment on column lanes.running is 'How many of its deliveries are in flight; counted whenever their rows change, so that nobody has to count them all.';
comment on column lanes.running_until is 'When the last of their leases ends: none is in flight after that.';
comment on column lanes.cancel_cause is 'Set when its subscription was removed: what is left is cancelled with this cause.';
comment on column lanes.gone is 'The last delivery that ended with 410, if none succeeded since.';
create index lanes_due_idx on lanes (due_at)
    where due_at is not null and cancel_cause is null and paused_at is null;
create index lanes_running_idx on lanes (host) where running > 0;
create index lanes_firm_idx on lanes (firm_id);
create index lanes_closed_idx on lanes (due_at) where due_at is not null and cancel_cause is not null;
create index lanes_paused_idx on lanes (paused_at) where due_at is not null and paused_at is not null;

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
    sequence      bigint      not null default 1,
    tries         integer     not null default 0,
    lease         bigint      not null default 0,
    leased_at     timestamptz,
    body_id       uuid,
    body_sha256   bytea,
    tries_max     integer     not null,
    step          jsonb,
    replay_id     uuid,
    traceparent   text,
    constraint outbox_pkey primary key (delivery_id),
    constraint outbox_lease_check check (leased_at is null or lease > 0)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);
comment on table outbox is 'Deliveries that are not at their end. A work queue, not a read model: never rebuilt.';
comment on column outbox.due_at is 'When the next try is due, or when the lease of the running one ends.';
comment on column outbox.sequence is 'The last event of its stream, for the next one to follow.';
comment on column outbox.lease is 'Fencing token: grows with each claim.';
comment on column outbox.occurrence_id is 'What happened; a workflow step''s own delivery stands in for it.';
comment on column outbox.tries_max is 'After so many tries in all it has failed.';
comment on column outbox.step is 'What a workflow step sends; null for a subscription''s.';
comment on column outbox.replay_id is 'The replay that sends it once more; it had ended before.';
comment on column outbox.traceparent is 'The place of its queueing in a trace, if it has one: its tries are parts of it.';
comment on column outbox.leased_at is 'When the running try was claimed; null between tries.';
create index outbox_response_idx on outbox (firm_id, response_id);
create index outbox_lane_idx on outbox (lane_id, due_at, position);
create index outbox_leased_idx on outbox (lane_id, due_at) where leased_at is not null;
