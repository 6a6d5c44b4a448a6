-- The vault: all personal data, encrypted under one data key per subject.
-- Only the vault crate reads and writes these tables. The data keys are in a database of their own
-- (migrations/keyring).
--
-- Ciphertext cannot be compressed, so its columns have storage `external`.
-- Most documents and bodies have about 2 KiB, slightly more than PostgreSQL keeps in a row by
-- default. The `toast_tuple_target` keeps them in the row as long as two rows fit on a page. The
-- writes to a second table and its index are thus saved.

create table responses (
    firm_id      uuid        not null,
    response_id  uuid        not null,
    form_id      uuid        not null,
    person_id    uuid,
    saved_at     timestamptz not null,
    submitted_at timestamptz,
    document     bytea       not null,
    constraint responses_pkey primary key (firm_id, response_id)
) with (toast_tuple_target = 4080);
comment on table responses is 'The answers of a person to a form.';
comment on column responses.person_id is
    'One of the people first named on the response. An erasure finds the row in response_people by '
    'it: an index over all rows would cost each response a write at a random place.';
comment on column responses.submitted_at is 'Null while the response is saved and not submitted.';
comment on column responses.document is 'Ciphertext under the key of the response.';
create index responses_latest_idx on responses (firm_id, submitted_at desc, response_id desc)
    where submitted_at is not null;
create index responses_latest_of_form_idx on responses
    (firm_id, form_id, submitted_at desc, response_id desc) where submitted_at is not null;
-- 0001_log.sql says where the statistics targets come from.
alter table responses
    alter document set storage external,
    alter firm_id set statistics 10, alter response_id set statistics 10,
    alter form_id set statistics 10, alter person_id set statistics 10,
    alter saved_at set statistics 10, alter submitted_at set statistics 10,
    alter document set statistics 10;

create table response_people (
    firm_id     uuid    not null,
    person_id   uuid    not null,
    response_id uuid    not null,
    further     boolean not null default true,
    constraint response_people_pkey primary key (firm_id, person_id, response_id)
);
comment on table response_people is
    'The people named on each response, so that an erasure of a person finds the responses. A row '
    'never changes, and goes with its response.';
comment on column response_people.person_id is 'Keyed hash of the firm and the address.';
comment on column response_people.further is
    'Whether the person is not the one in the row of the response. An index then finds the row.';
create index response_people_further_idx on response_people (firm_id, response_id) where further;
alter table response_people
    alter firm_id set statistics 10, alter person_id set statistics 10,
    alter response_id set statistics 10, alter further set statistics 10;

create table reports (
    firm_id     uuid        not null,
    report_id   uuid        not null,
    response_id uuid,
    reported_at timestamptz,
    document    bytea,
    approved_at timestamptz,
    constraint reports_pkey primary key (firm_id, report_id),
    constraint reports_document_check check ((document is null) = (reported_at is null))
) with (toast_tuple_target = 4080);
comment on table reports is
    'Reports as the product last reported them. An approval may come before its report.';
comment on column reports.reported_at is 'Null for a report of which only an approval has come.';
comment on column reports.document is 'Ciphertext under the key of the response.';
create index reports_response_idx on reports (firm_id, response_id);
alter table reports
    alter document set storage external,
    alter firm_id set statistics 10, alter report_id set statistics 10,
    alter response_id set statistics 10, alter reported_at set statistics 10,
    alter document set statistics 10, alter approved_at set statistics 10;

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
) with (toast_tuple_target = 4080);
comment on table bookings is
    'Calls as they were booked. A new time or a cancellation may come before the booking.';
comment on column bookings.made_at is 'Null for a call of which no booking has come.';
comment on column bookings.document is 'Ciphertext under the key of the response.';
comment on column bookings.moved_at is
    'Time of the last move. Null for a call that was not moved: its times are in the document.';
comment on column bookings.starts_at is 'Start of the call after the last move.';
comment on column bookings.ends_at is 'End of the call after the last move.';
comment on column bookings.duration_min is 'Minutes of the call after the last move.';
comment on column bookings.time_zone is 'Time zone of the call after the last move.';
create index bookings_response_idx on bookings (firm_id, response_id);
alter table bookings
    alter document set storage external,
    alter firm_id set statistics 10, alter booking_id set statistics 10,
    alter response_id set statistics 10, alter made_at set statistics 10,
    alter document set statistics 10, alter moved_at set statistics 10,
    alter starts_at set statistics 10, alter ends_at set statistics 10,
    alter duration_min set statistics 10, alter time_zone set statistics 10,
    alter cancelled set statistics 10;

create table bodies (
    body_id     uuid        not null,
    firm_id     uuid        not null,
    response_id uuid        not null,
    sha256      bytea       not null,
    ciphertext  bytea       not null,
    created_at  timestamptz not null,
    constraint bodies_pkey primary key (body_id),
    constraint bodies_sha256_check check (octet_length(sha256) = 32)
) with (toast_tuple_target = 4080);
comment on table bodies is 'Bodies of requests, frozen at the first try of a delivery.';
comment on column bodies.sha256 is 'SHA-256 of the body before its encryption.';
comment on column bodies.ciphertext is 'The body, as ciphertext under the key of the response.';
create index bodies_response_idx on bodies (firm_id, response_id);
create index bodies_age_idx on bodies (created_at);
alter table bodies
    alter ciphertext set storage external,
    alter body_id set statistics 10, alter firm_id set statistics 10,
    alter response_id set statistics 10, alter sha256 set statistics 10,
    alter ciphertext set statistics 10, alter created_at set statistics 10;

create table answers (
    delivery_id uuid        not null,
    number      integer     not null,
    firm_id     uuid        not null,
    response_id uuid        not null,
    answer      bytea       not null,
    received_at timestamptz not null,
    constraint answers_pkey primary key (delivery_id, number)
);
comment on table answers is 'The first KiB of each answer of a receiver.';
comment on column answers.number is 'Number of the try that was answered.';
comment on column answers.answer is 'Ciphertext under the key of the response.';
create index answers_response_idx on answers (firm_id, response_id);
create index answers_age_idx on answers (received_at);
alter table answers
    alter delivery_id set statistics 10, alter number set statistics 10,
    alter firm_id set statistics 10, alter response_id set statistics 10,
    alter answer set statistics 10, alter received_at set statistics 10;

create table step_headers (
    delivery_id uuid  not null,
    firm_id     uuid  not null,
    response_id uuid  not null,
    headers     bytea not null,
    constraint step_headers_pkey primary key (delivery_id)
);
comment on table step_headers is 'The extra headers of workflow steps.';
comment on column step_headers.headers is 'Ciphertext under the key of the response.';
create index step_headers_response_idx on step_headers (firm_id, response_id);

create table mails (
    invite_id      uuid  not null,
    firm_id        uuid  not null,
    reservation_id uuid  not null,
    mail           bytea not null,
    constraint mails_pkey primary key (invite_id)
);
comment on table mails is 'The mail of each open invite.';
comment on column mails.reservation_id is
    'The reservation of the invite. Each reservation has a data key of its own.';
comment on column mails.mail is 'Ciphertext under the key of the reservation.';

create table webhook_secrets (
    firm_id    uuid        not null,
    secret     bytea       not null,
    rotated_at timestamptz not null,
    constraint webhook_secrets_pkey primary key (firm_id)
);
comment on table webhook_secrets is 'The signing secret of each firm.';
comment on column webhook_secrets.secret is 'Ciphertext under the wrapping key.';

create table firm_contacts (
    firm_id  uuid  not null,
    contact  bytea not null,
    constraint firm_contacts_pkey primary key (firm_id)
);
comment on table firm_contacts is 'The reply address of each firm.';
comment on column firm_contacts.contact is 'Ciphertext under the wrapping key.';

create table identity_check (
    single      boolean not null default true,
    fingerprint bytea   not null,
    constraint identity_check_pkey primary key (single),
    constraint identity_check_single_check check (single)
);
comment on table identity_check is
    'Proof that the identity key is the one this database was used with. Another key would give '
    'every address another person_id.';
comment on column identity_check.single is 'Always true: the table has at most one row.';
comment on column identity_check.fingerprint is
    'Keyed hash of a fixed word under the identity key.';
