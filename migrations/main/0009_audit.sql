-- The proof. Its one writer is the projector crate; it follows the log, one process at a time.
create table audit_log (
    firm_id       uuid        not null,
    sequence      bigint      not null,
    position      bigint      not null,
    at            timestamptz not null,
    action        text        not null,
    actor_kind    text        not null,
    actor_id      text,
    subject_kind  text        not null,
    subject_id    text,
    reason        text,
    evidence      jsonb       not null,
    entry         bytea       not null,
    previous_hash bytea       not null,
    hash          bytea       not null,
    constraint audit_log_pkey primary key (firm_id, sequence),
    constraint audit_log_position_key unique (position),
    constraint audit_log_sequence_check check (sequence > 0),
    constraint audit_log_hashes_check check (octet_length(hash) = 32 and octet_length(previous_hash) = 32)
);
comment on table audit_log is 'What has to be answered for, in a chain per firm without gaps.';
comment on column audit_log.entry is 'The canonical bytes (RFC 8785) that are hashed; the columns beside it are there to look things up.';
comment on column audit_log.hash is 'SHA-256 of the previous hash and the entry; 32 zero bytes are before the first.';
create index audit_log_subject_idx on audit_log (subject_id, sequence);
create index audit_log_action_idx on audit_log (firm_id, action, sequence);

create table audit_heads (
    firm_id  uuid   not null,
    sequence bigint not null,
    hash     bytea  not null,
    frontier bytea  not null,
    constraint audit_heads_pkey primary key (firm_id)
);
comment on table audit_heads is 'Where each chain ends: for the next entry, and for the next checkpoint.';
comment on column audit_heads.frontier is 'The right edge of the tree over all its hashes (RFC 6962).';

create table seals (
    number        bigint not null,
    last_position bigint not null,
    events        bigint not null,
    root          bytea  not null,
    previous_hash bytea  not null,
    hash          bytea  not null,
    constraint seals_pkey primary key (number),
    constraint seals_last_position_key unique (last_position),
    constraint seals_hashes_check check (
        octet_length(root) = 32 and octet_length(hash) = 32 and octet_length(previous_hash) = 32)
);
comment on table seals is 'The whole log in blocks of positions: the root (RFC 6962) over the digests of each, chained.';

create function audit_refuse_change() returns trigger language plpgsql as $$
begin
    raise exception 'the audit log is append-only: % refused', tg_op using errcode = 'insufficient_privilege';
end $$;
create trigger audit_log_refuse_change before update or delete or truncate on audit_log
    for each statement execute function audit_refuse_change();
create trigger seals_refuse_change before update or delete or truncate on seals
    for each statement execute function audit_refuse_change();
revoke update, delete, truncate on audit_log, seals from public;
