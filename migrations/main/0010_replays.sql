-- Deliveries that are sent once more. Their one writer is the projector crate, for commands and for the
-- deliverer.
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
comment on table replays is 'Where each replay stands; locked by whoever changes it or queues for it.';
comment on column replays.fed_until is 'Up to when its rate is used up: what is queued next is queued from here on.';
create index replays_running_idx on replays (fed_until) where state = 'running';
create index replays_paused_idx on replays (replay_id) where state = 'paused';
create index replays_firm_idx on replays (firm_id, requested_at desc, replay_id desc);

create table replay_items (
    replay_id   uuid   not null,
    place       bigint not null,
    delivery_id uuid   not null,
    outcome     text,
    constraint replay_items_pkey primary key (replay_id, place),
    constraint replay_items_delivery_key unique (replay_id, delivery_id)
);
comment on table replay_items is 'What each replay sends again, in order, and what came of it; null before its turn.';
create index replay_items_waiting_idx on replay_items (replay_id, place) where outcome is null;
