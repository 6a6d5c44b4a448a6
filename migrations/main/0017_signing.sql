-- The state of the proof that lies outside the database: the last signature, and the last
-- verification. Only the projector crate writes these tables. Each has at most one row.

create table last_signature (
    single    boolean     not null default true,
    series    integer     not null,
    number    bigint      not null,
    hash      bytea       not null,
    key_id    text        not null,
    position  bigint      not null,
    signed_at timestamptz not null,
    constraint last_signature_pkey primary key (single),
    constraint last_signature_single_check check (single),
    constraint last_signature_number_check check (series > 0 and number > 0),
    constraint last_signature_hash_check check (octet_length(hash) = 32)
);
comment on table last_signature is
    'The last signed checkpoint. An empty folder of keys or checkpoints begins no new series while '
    'this row exists.';
comment on column last_signature.single is 'Always true: the table has at most one row.';
comment on column last_signature.series is
    'Number of the series, from 1. `firmforms audit checkpoint --new-series` begins one.';
comment on column last_signature.number is 'Number of the checkpoint in its series, from 1.';
comment on column last_signature.hash is 'Hash of the checkpoint''s canonical JSON.';
comment on column last_signature.key_id is 'Id of the key that signed.';
comment on column last_signature.position is 'The last position that the checkpoint covers.';

create table last_verification (
    single      boolean     not null default true,
    began_at    timestamptz,
    walked_to   bigint,
    ended_at    timestamptz,
    verified_to bigint,
    outcome     text,
    reason      text,
    constraint last_verification_pkey primary key (single),
    constraint last_verification_single_check check (single),
    constraint last_verification_running_check check ((began_at is null) = (walked_to is null)),
    constraint last_verification_ended_check check (
        (ended_at is null) = (outcome is null) and (ended_at is null) = (verified_to is null)),
    constraint last_verification_outcome_check check (outcome in ('intact', 'broken', 'incomplete'))
);
comment on table last_verification is
    'The verification of the log that runs now, and the result of the last one that ended.';
comment on column last_verification.single is 'Always true: the table has at most one row.';
comment on column last_verification.began_at is
    'Begin of the verification under way; null while none is.';
comment on column last_verification.walked_to is
    'Last verified position of the verification under way. Another process resumes there.';
comment on column last_verification.reason is
    'The first flaw of a broken log, or why a verification stayed incomplete.';
