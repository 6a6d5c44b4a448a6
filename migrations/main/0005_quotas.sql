-- Limits that span streams.
-- Only the projector crate writes this table, in the append that changes the count.

-- Updates touch no indexed column. Free space on the page keeps them out of the indexes.
create table quotas (
    firm_id uuid    not null,
    kind    text    not null,
    period  date    not null,
    used    integer not null,
    changed_position bigint not null default 0,
    constraint quotas_pkey primary key (firm_id, kind, period),
    constraint quotas_used_check check (used >= 0)
) with (
    fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 200,
    autovacuum_vacuum_cost_delay = 0
);
comment on table quotas is
    'Number of keys and subscriptions of each firm, and of the invites it sent on each day.';
comment on column quotas.kind is 'Counted things: keys, hooks or invites.';
comment on column quotas.period is
    'The UTC day of a daily count. -infinity stands for a count of things that exist now.';
comment on column quotas.changed_position is
    'Position of the last creation or removal of a subscription of the firm; 0 before the first, and '
    'for other kinds.';
-- Housekeeping finds past days by this index.
create index quotas_days_idx on quotas (period) where period > '-infinity';
