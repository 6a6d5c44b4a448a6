-- Data of closed firms, the pair of databases, and rows that waited for ever.

-- The indexes find closed firms, which are few, without reading all firms.
alter table firms add column dropped_at timestamptz;
comment on column firms.dropped_at is
    'Time at which the data of the closed firm were dropped. Intake ignores activities about it since.';
create index firms_closed_idx on firms (firm_id) where status = 'closed' and dropped_at is null;
create index firms_dropped_idx on firms (firm_id) where dropped_at is not null;

-- The worker that drops a closed firm's data finds each table's rows by firm.
create index mails_firm_idx on mails (firm_id, invite_id);

-- The default serves builds that do not set the column.
alter table waiting_facts add column waits_since timestamptz not null default now();
comment on column waiting_facts.waits_since is
    'Time of the activity. A fact whose response never comes is forgotten after 90 days.';
create index waiting_facts_age_idx on waiting_facts (waits_since);

-- Housekeeping finds the replays whose deliveries it forgets.
create index replays_ended_idx on replays (ended_at) where ended_at is not null;

-- A dead row of these tables still holds a secret. Their vacuum comes after a number of dead rows.
alter table webhook_secrets set (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20);
alter table firm_contacts set (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 20);
alter table mails set (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

create table installation (
    single          boolean not null default true,
    installation_id uuid    not null,
    constraint installation_pkey primary key (single),
    constraint installation_single_check check (single)
);
comment on table installation is
    'The id that this database and its keyring share. A process on a strange pair does not start.';
comment on column installation.single is 'Always true: the table has at most one row.';
