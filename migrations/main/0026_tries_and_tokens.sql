-- Tries of invites per firm and day, and what a token may reach.
-- Only the projector crate writes these tables.

-- Unlogged like the other counters: after a crash of the server the day begins anew.
create unlogged table invite_tries (
    firm_id uuid    not null,
    day     date    not null,
    tries   integer not null,
    constraint invite_tries_pkey primary key (firm_id, day),
    constraint invite_tries_tries_check check (tries > 0)
) with (fillfactor = 70);
comment on table invite_tries is
    'Number of recipients that each firm tried to invite on each UTC day. Refused and failed '
    'invites stay counted.';
-- Housekeeping finds past days by this index.
create index invite_tries_day_idx on invite_tries (day);

alter table tokens
    add column expires_at timestamptz,
    add column firm_ids uuid[],
    add column last_used_at timestamptz,
    add constraint tokens_firm_ids_check check (cardinality(firm_ids) > 0);
comment on column tokens.expires_at is 'Time from which the token is refused; null for never.';
comment on column tokens.firm_ids is 'The firms that the token may reach; null for all.';
comment on column tokens.last_used_at is 'Time of the last use, to about a minute.';
