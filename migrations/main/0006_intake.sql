-- The intake: reports of the product, in any order.
-- Only the projector crate writes these tables. None of them is a read model: their source is the
-- product, not the log.

create table activity_seen (
    firm_id uuid        not null,
    source  text        not null,
    id      text        not null,
    seen_at timestamptz not null,
    constraint activity_seen_pkey primary key (firm_id, source, id)
);
comment on table activity_seen is
    'Ids of reports of state, so that a repeated report is known at once. Kept for 30 days.';
comment on column activity_seen.source is 'The system that reported.';
comment on column activity_seen.id is 'The id that the source gave its report.';
create index activity_seen_age_idx on activity_seen (seen_at);
-- 0001_log.sql says where the statistics targets come from.
alter table activity_seen
    alter firm_id set statistics 10, alter source set statistics 10, alter id set statistics 10,
    alter seen_at set statistics 10;

create table subjects (
    firm_id     uuid    not null,
    subject_id  uuid    not null,
    response_id uuid,
    form_id     uuid,
    erased      boolean not null default false,
    constraint subjects_pkey primary key (firm_id, subject_id)
) with (fillfactor = 80);
comment on table subjects is
    'Responses, reports and calls, also those that were named before they were reported. The '
    'intake locks the row of a subject before it takes in a report of it.';
comment on column subjects.subject_id is 'Id of a response, a report or a call.';
comment on column subjects.response_id is
    'The response that a report or call belongs to. Null until it is known, and for responses.';
comment on column subjects.form_id is
    'The form that a response answers. Null until it is known, and for reports and calls.';
comment on column subjects.erased is 'Whether the subject is a response that was erased.';
create index subjects_response_idx on subjects (firm_id, response_id) where response_id is not null;
-- Batches often ask which of many subjects are erased, and hardly any are.
create index subjects_erased_idx on subjects (firm_id, subject_id) where erased;
alter table subjects
    alter firm_id set statistics 10, alter subject_id set statistics 10,
    alter response_id set statistics 10, alter form_id set statistics 10,
    alter erased set statistics 10;

create table waiting_facts (
    firm_id       uuid  not null,
    occurrence_id uuid  not null,
    subject_id    uuid  not null,
    fact          jsonb not null,
    constraint waiting_facts_pkey primary key (occurrence_id, subject_id)
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500);
comment on table waiting_facts is
    'Facts about a subject whose response or form is not known yet. The table is a work queue.';
comment on column waiting_facts.occurrence_id is 'The occurrence that the fact will become.';
comment on column waiting_facts.fact is 'The fact as it was reported.';
create index waiting_facts_subject_idx on waiting_facts (firm_id, subject_id);

create table partials (
    firm_id     uuid        not null,
    response_id uuid        not null,
    form_id     uuid        not null,
    answered_at timestamptz not null,
    due_at      timestamptz not null,
    constraint partials_pkey primary key (firm_id, response_id)
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);
comment on table partials is
    'Responses that were begun and not submitted. The timer that records the partial submission '
    'deletes the row, and so does the submission: the first to commit decides.';
comment on column partials.answered_at is
    'Time of the last answer, by the clock of the product.';
comment on column partials.due_at is
    'Database time at which the response becomes a partial submission.';
create index partials_due_idx on partials (due_at);
