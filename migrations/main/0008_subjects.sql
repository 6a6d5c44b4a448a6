-- What the product reports things of. Their one writer is the projector crate, for the intake.
create table subjects (
    firm_id     uuid    not null,
    subject_id  uuid    not null,
    response_id uuid,
    form_id     uuid,
    erased      boolean not null default false,
    constraint subjects_pkey primary key (firm_id, subject_id)
) with (fillfactor = 80);
comment on table subjects is 'Responses, reports and calls, also those that were heard of before they were reported; locked by whoever reports of them.';
create index subjects_response_idx on subjects (firm_id, response_id) where response_id is not null;

create table waiting_facts (
    firm_id       uuid  not null,
    occurrence_id uuid  not null,
    subject_id    uuid  not null,
    fact          jsonb not null,
    constraint waiting_facts_pkey primary key (occurrence_id, subject_id)
);
comment on table waiting_facts is 'What happened to a subject whose response is not known yet.';
create index waiting_facts_subject_idx on waiting_facts (firm_id, subject_id);

-- Responses that somebody began and has not submitted.
create table partials (
    firm_id     uuid        not null,
    response_id uuid        not null,
    form_id     uuid        not null,
    due_at      timestamptz not null,
    constraint partials_pkey primary key (firm_id, response_id)
);
comment on table partials is 'When an unfinished response becomes a partial submission, by database time. Deleted by the timer that records it or by the submission, whichever commits first.';
create index partials_due_idx on partials (due_at);
