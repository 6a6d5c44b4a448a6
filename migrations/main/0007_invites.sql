-- Invites and the people they go to. The addresses themselves are in the vault, or nowhere.
create table people (
    firm_id      uuid    not null,
    person_id    uuid    not null,
    unsubscribed boolean not null,
    bounced      boolean not null,
    erased_at    timestamptz,
    constraint people_pkey primary key (firm_id, person_id)
);
comment on table people is 'Who gets no mail: unsubscribed, or with an address that was refused.';
comment on column people.person_id is 'A keyed hash of firm and address: who has only this database cannot turn it back.';

create table open_invites (
    invite_id   uuid        not null,
    firm_id     uuid        not null,
    form_id     uuid        not null,
    person_id   uuid        not null,
    day         date        not null,
    reserved_at timestamptz not null,
    due_at      timestamptz not null,
    constraint open_invites_pkey primary key (invite_id)
);
comment on table open_invites is 'Invites whose mail is under way; when one is due, whoever had it is gone.';
create index open_invites_due_idx on open_invites (due_at);

create table mails (
    invite_id      uuid  not null,
    firm_id        uuid  not null,
    reservation_id uuid  not null,
    mail           bytea not null,
    constraint mails_pkey primary key (invite_id)
);
comment on table mails is 'The mail of each open invite, as ciphertext under the key of its reservation; written by the vault crate.';

create table identity_check (
    single      boolean not null default true,
    fingerprint bytea   not null,
    constraint identity_check_pkey primary key (single),
    constraint identity_check_single_check check (single)
);
comment on table identity_check is 'What the identity key makes of a word: with another keyring everybody here would be somebody else.';
