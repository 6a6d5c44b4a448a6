-- Notices to firms and to the operator (ruling 49).

alter table firms
    add column notices_mailed boolean not null default true,
    add column notices_lang text not null default 'en',
    add constraint firms_notices_lang_check check (notices_lang in ('en', 'fr', 'es'));
comment on column firms.notices_mailed is 'Whether the firm gets notices by mail.';
comment on column firms.notices_lang is 'The language of the notices to the firm.';

-- The follower of deliveries keeps episodes in its transaction, as it does receivers.
create table hook_episodes (
    hook_id       uuid        not null,
    firm_id       uuid        not null,
    failing_since timestamptz,
    failures      bigint      not null,
    last_answer   jsonb,
    is_warned     boolean     not null,
    is_failing    boolean     not null,
    due_at        timestamptz,
    constraint hook_episodes_pkey primary key (hook_id)
) with (
    fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 500,
    autovacuum_vacuum_cost_delay = 0
);
comment on table hook_episodes is
    'Subscriptions with a failure since their last success. The table is a counter: it begins with '
    'its migration.';
comment on column hook_episodes.failing_since is 'End of the first failure after the last success.';
comment on column hook_episodes.failures is 'Failures since the last success.';
comment on column hook_episodes.last_answer is 'The last failure.';
comment on column hook_episodes.is_warned is 'Whether a notice of the first 410 was due.';
comment on column hook_episodes.is_failing is 'Whether a notice of the failing target was due.';
comment on column hook_episodes.due_at is
    'Time at which the subscription is failing if nothing more happens.';
create index hook_episodes_due_idx on hook_episodes (due_at) where due_at is not null;

create table notices (
    notice_id   uuid        not null,
    firm_id     uuid        not null,
    facts       jsonb       not null,
    raised_at   timestamptz not null,
    due_at      timestamptz not null,
    mail_tries  integer     not null default 0,
    is_queued   boolean     not null default false,
    constraint notices_pkey primary key (notice_id)
) with (
    fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 500,
    autovacuum_vacuum_cost_delay = 0
);
comment on table notices is
    'Notices that are due and not yet mailed. The table is a work queue.';
comment on column notices.facts is 'The kind, the subject and the answers of the notice.';
comment on column notices.raised_at is 'Time at which the notice became due.';
comment on column notices.due_at is 'Time of the next try, or end of the running one.';
comment on column notices.mail_tries is 'Tries to mail the notice.';
comment on column notices.is_queued is
    'Whether the notice is in the outbox, on its way to the operator''s URL.';
create index notices_due_idx on notices (due_at);
-- Notices that are not in the outbox yet are found by this index.
create index notices_new_idx on notices (raised_at) where not is_queued;
-- The data of a closed firm are dropped by this index.
create index notices_firm_idx on notices (firm_id, notice_id);

alter table lanes drop constraint lanes_kind_check,
    add constraint lanes_kind_check check (kind in ('hook', 'step', 'notice'));
alter table outbox add column notice jsonb;
comment on column outbox.notice is
    'A notice to the operator''s URL, with its body. Null for every delivery.';
create index outbox_notices_idx on outbox (due_at) where notice is not null;
