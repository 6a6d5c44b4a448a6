-- Form invites and their recipients. The addresses are in the vault, or nowhere.
-- Only the projector crate writes these tables.

create table people (
    firm_id      uuid    not null,
    person_id    uuid    not null,
    unsubscribed boolean not null,
    bounced      boolean not null,
    erased_at    timestamptz,
    constraint people_pkey primary key (firm_id, person_id)
);
comment on table people is
    'The mail status of people. A person who unsubscribed or whose address was refused gets no '
    'mail.';
comment on column people.person_id is
    'Keyed hash of the firm and the address. This database alone cannot reverse it.';
comment on column people.bounced is 'Whether a mail server refused the address.';
comment on column people.erased_at is 'Time at which the person was erased.';

create table open_invites (
    invite_id   uuid        not null,
    firm_id     uuid        not null,
    form_id     uuid        not null,
    person_id   uuid        not null,
    day         date        not null,
    reserved_at timestamptz not null,
    due_at      timestamptz not null,
    constraint open_invites_pkey primary key (invite_id)
) with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500);
comment on table open_invites is 'Invites whose mail is under way. The table is a work queue.';
comment on column open_invites.day is 'The UTC day whose quota the invite takes.';
comment on column open_invites.due_at is
    'Time at which another process may take over: the process with the invite has died by then.';
create index open_invites_due_idx on open_invites (due_at);
