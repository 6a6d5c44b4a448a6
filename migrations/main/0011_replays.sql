-- Replays: deliveries that are sent again.
-- Only the projector crate writes these tables, for commands and for the deliverer.

create table replays (
    replay_id       uuid        not null,
    firm_id         uuid        not null,
    state           text        not null,
    reason          text        not null,
    force           boolean     not null,
    rate_per_second integer     not null,
    selected        bigint      not null,
    requested_at    timestamptz not null,
    ended_at        timestamptz,
    fed_until       timestamptz,
    sequence        bigint      not null,
    constraint replays_pkey primary key (replay_id),
    constraint replays_state_check check (state in ('running', 'paused', 'stopped', 'finished')),
    constraint replays_rate_check check (rate_per_second > 0)
);
comment on table replays is
    'The state of each replay. A command that changes a replay locks its row, and so does the '
    'worker that queues deliveries for it.';
comment on column replays.force is 'Whether the replay sends delivered deliveries again.';
comment on column replays.rate_per_second is 'Deliveries to queue per second.';
comment on column replays.selected is 'Number of deliveries that were selected.';
comment on column replays.fed_until is
    'Time up to which the rate is used up. The next deliveries are queued from this time on.';
comment on column replays.sequence is
    'Sequence of the last event of the stream. The next event takes the number after it.';
create index replays_running_idx on replays (fed_until) where state = 'running';
create index replays_paused_idx on replays (replay_id) where state = 'paused';
create index replays_firm_idx on replays (firm_id, requested_at desc, replay_id desc);

create table replay_items (
    replay_id   uuid   not null,
    place       bigint not null,
    delivery_id uuid   not null,
    hook_id     uuid,
    outcome     text,
    constraint replay_items_pkey primary key (replay_id, place),
    constraint replay_items_delivery_key unique (replay_id, delivery_id)
);
comment on table replay_items is
    'The deliveries of each replay, in order. The table is a work queue.';
comment on column replay_items.place is 'Place in the order of the replay.';
comment on column replay_items.hook_id is 'The subscription of the delivery.';
comment on column replay_items.outcome is
    'The result of the delivery''s turn: queued, or the reason why not. Null before its turn.';
-- The queue is read per subscription, so a receiver that takes nothing holds up no other.
create index replay_items_waiting_idx on replay_items (replay_id, hook_id, place)
    where outcome is null;
