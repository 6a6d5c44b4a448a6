-- What operators and auditors ask for by a name, a prefix, a digest or a host.
-- The tables are small beside the history of deliveries. Their rows change seldom.

-- Row guards hide an index on an expression from a login of one role, so each expression is a column.

-- Lists by name and the search for a firm.
create index firms_name_idx on firms (name, firm_id);
alter table firms add column lower_name text generated always as (lower(name)) stored;
comment on column firms.lower_name is 'The name as a search compares it.';
create index firms_lower_name_idx on firms (lower_name text_pattern_ops);

-- An id alone does not say whose it is.
create index members_member_idx on members (member_id);
create index forms_form_idx on forms (form_id);
create index key_auth_prefix_idx on key_auth (prefix text_pattern_ops);

create index replays_requested_idx on replays (requested_at desc, replay_id desc);

-- Attempts by host, over all firms. The follower of deliveries counts them in its transaction, so
-- that no row of a busy host is in the way of a recorded answer.
create table receivers (
    host          text        not null,
    attempted_at  timestamptz not null,
    last_status   integer,
    last_error    text,
    succeeded_at  timestamptz,
    failing_since timestamptz not null default 'infinity',
    failures      bigint      not null default 0,
    constraint receivers_pkey primary key (host)
) with (
    fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 500,
    autovacuum_vacuum_cost_delay = 0
);
comment on table receivers is
    'The last attempt to each host, and its failures since the last success. The table is a '
    'counter: it begins with its migration.';
comment on column receivers.failing_since is
    'End of the first failure after the last success. Infinity if the last attempt succeeded.';
comment on column receivers.failures is 'Failures since the last success.';
create index receivers_failing_idx on receivers (failing_since, host);

create table receiver_hours (
    host      text        not null,
    hour      timestamptz not null,
    attempts  bigint      not null,
    delivered bigint      not null,
    constraint receiver_hours_pkey primary key (host, hour)
) with (
    fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 500,
    autovacuum_vacuum_cost_delay = 0
);
comment on table receiver_hours is
    'Attempts and successes of each host by the hour, for two days. The table is a counter.';
comment on column receiver_hours.hour is 'Start of the hour in which the attempts ended.';
-- Housekeeping finds past hours by this index, and doctor the hosts of the last ones.
create index receiver_hours_hour_idx on receiver_hours (hour);

-- Subscriptions of a host, also removed ones. The expression takes the start of a target: scheme,
-- host and, for IPv6, brackets.
alter table hooks add column host text
    generated always as (substring(lower(target_url) from '^https?://(\[[^]]*\]|[^/:?#]*)')) stored;
comment on column hooks.host is 'The host of the target.';
create index hooks_host_idx on hooks (host, removed_at);

-- Entries by their hash, by the id of their event, and those of operators at terminals. The id of the
-- event comes before every text that somebody chose.
alter table audit_log add column event_id uuid
    generated always as (substring(encode(entry, 'escape') from
        '"event_id":"([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})"')::uuid) stored;
comment on column audit_log.event_id is 'The id of the event, from the entry.';
alter table audit_log alter event_id set statistics 10;
create index audit_log_event_idx on audit_log (event_id);
create index audit_log_hash_idx on audit_log (hash);
create index audit_log_operators_idx on audit_log (firm_id, at)
    where actor_kind = 'operator' and evidence->'terminal' is not null;

-- Lists by trigger, and by subscription and rare state. Nearly all deliveries are form_submitted and
-- delivered, so these indexes cost such a delivery nothing.
create index deliveries_trigger_idx on deliveries
    (firm_id, trigger, created_at desc, delivery_id desc) where trigger <> 'form_submitted';
create index deliveries_hook_state_idx on deliveries
    (hook_id, state, created_at desc, delivery_id desc) where state in ('failed', 'cancelled');
