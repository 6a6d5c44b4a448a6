-- The vault: everything personal, under a data key per subject. Its one writer and reader is the
-- vault crate. The data keys are in a database of their own (migrations/keyring).
create table responses (
    firm_id      uuid        not null,
    response_id  uuid        not null,
    form_id      uuid        not null,
    saved_at     timestamptz not null,
    submitted_at timestamptz,
    document     bytea       not null,
    constraint responses_pkey primary key (firm_id, response_id)
);
comment on table responses is 'What a person answered, as ciphertext under the key of the response.';
create index responses_latest_idx on responses (firm_id, submitted_at desc, response_id desc)
    where submitted_at is not null;
create index responses_latest_of_form_idx on responses
    (firm_id, form_id, submitted_at desc, response_id desc) where submitted_at is not null;

create table response_people (
    firm_id     uuid not null,
    person_id   uuid not null,
    response_id uuid not null,
    constraint response_people_pkey primary key (firm_id, person_id, response_id)
);
create index response_people_response_idx on response_people (firm_id, response_id);
comment on table response_people is 'Who is named on which response, by a keyed hash of the address, to find what is to be erased. Never changed; goes with the response.';

create table bodies (
    body_id     uuid        not null,
    firm_id     uuid        not null,
    response_id uuid        not null,
    sha256      bytea       not null,
    ciphertext  bytea       not null,
    created_at  timestamptz not null,
    constraint bodies_pkey primary key (body_id),
    constraint bodies_sha256_check check (octet_length(sha256) = 32)
);
comment on table bodies is 'What was sent, frozen at the first try, as ciphertext under the key of the response.';

create index bodies_response_idx on bodies (firm_id, response_id);
create index bodies_age_idx on bodies (created_at);

create table answers (
    delivery_id uuid        not null,
    number      integer     not null,
    firm_id     uuid        not null,
    response_id uuid        not null,
    answer      bytea       not null,
    received_at timestamptz not null,
    constraint answers_pkey primary key (delivery_id, number)
);
create index answers_response_idx on answers (firm_id, response_id);
create index answers_age_idx on answers (received_at);
comment on table answers is 'The first KiB of what a receiver said, as ciphertext under the key of the response.';

create table step_headers (
    delivery_id uuid  not null,
    firm_id     uuid  not null,
    response_id uuid  not null,
    headers     bytea not null,
    constraint step_headers_pkey primary key (delivery_id)
);
create index step_headers_response_idx on step_headers (firm_id, response_id);
comment on table step_headers is 'Extra headers of workflow steps, as ciphertext under the key of the response.';

create table webhook_secrets (
    firm_id    uuid        not null,
    secret     bytea       not null,
    rotated_at timestamptz not null,
    constraint webhook_secrets_pkey primary key (firm_id)
);
comment on table webhook_secrets is 'The signing secret of each firm, as ciphertext under the wrapping key.';

create table firm_contacts (
    firm_id  uuid  not null,
    contact  bytea not null,
    constraint firm_contacts_pkey primary key (firm_id)
);
comment on table firm_contacts is 'The reply address of each firm, as ciphertext under the wrapping key.';

create table reports (
    firm_id     uuid        not null,
    report_id   uuid        not null,
    response_id uuid,
    reported_at timestamptz,
    document    bytea,
    approved_at timestamptz,
    constraint reports_pkey primary key (firm_id, report_id),
    constraint reports_document_check check ((document is null) = (reported_at is null))
);
comment on table reports is 'Reports as last reported, as ciphertext under the key of the response; approvals may come first.';
create index reports_response_idx on reports (firm_id, response_id);

create table bookings (
    firm_id      uuid        not null,
    booking_id   uuid        not null,
    response_id  uuid,
    made_at      timestamptz,
    document     bytea,
    moved_at     timestamptz,
    starts_at    timestamptz,
    ends_at      timestamptz,
    duration_min bigint,
    time_zone    text,
    cancelled    boolean     not null default false,
    constraint bookings_pkey primary key (firm_id, booking_id),
    constraint bookings_document_check check ((document is null) = (made_at is null)),
    constraint bookings_moved_check check ((moved_at is null) = (starts_at is null))
);
comment on table bookings is 'Calls as they were booked, as ciphertext under the key of the response; new times and cancellations may come first.';
create index bookings_response_idx on bookings (firm_id, response_id);
