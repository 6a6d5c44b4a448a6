-- The proof: the audit log of each firm, and the seals over the whole log.
-- Only the projector crate writes these tables, as it follows the log. One process follows at a
-- time.

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
    constraint audit_log_hashes_check check (
        octet_length(hash) = 32 and octet_length(previous_hash) = 32)
);
comment on table audit_log is
    'Actions that somebody must answer for. The entries of each firm form a hash chain.';
comment on column audit_log.sequence is 'Place in the chain of the firm, from 1 without gaps.';
comment on column audit_log.position is 'Position of the event that the entry follows from.';
comment on column audit_log.evidence is 'Further facts of the action, as the entry has them.';
comment on column audit_log.entry is
    'The canonical bytes (RFC 8785) that are hashed. The other columns only serve look-ups.';
comment on column audit_log.previous_hash is
    'The hash of the entry before. The first entry of a chain has 32 zero bytes.';
comment on column audit_log.hash is 'SHA-256 of the previous hash and the entry.';
create index audit_log_subject_idx on audit_log (subject_id, sequence);
create index audit_log_action_idx on audit_log (firm_id, action, sequence);
-- 0001_log.sql says where the statistics targets come from.
alter table audit_log
    alter firm_id set statistics 10, alter sequence set statistics 10,
    alter position set statistics 10, alter at set statistics 10,
    alter action set statistics 10, alter actor_kind set statistics 10,
    alter actor_id set statistics 10, alter subject_kind set statistics 10,
    alter subject_id set statistics 10, alter reason set statistics 10,
    alter evidence set statistics 10, alter entry set statistics 10,
    alter previous_hash set statistics 10, alter hash set statistics 10;

-- Updates touch no indexed column. Free space on the page keeps them out of the index.
create table audit_heads (
    firm_id  uuid   not null,
    sequence bigint not null,
    hash     bytea  not null,
    frontier bytea  not null,
    constraint audit_heads_pkey primary key (firm_id)
) with (
    fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 200,
    autovacuum_vacuum_cost_delay = 0
);
comment on table audit_heads is
    'The end of each chain. The next entry and the next signed checkpoint build on it.';
comment on column audit_heads.sequence is 'Sequence of the last entry of the chain.';
comment on column audit_heads.hash is 'Hash of the last entry of the chain.';
comment on column audit_heads.frontier is
    'The right edge of the Merkle tree (RFC 6962) over all hashes of the chain.';

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
comment on table seals is
    'The whole log in blocks of 1,024 positions. The seals of the blocks form a hash chain.';
comment on column seals.number is 'Number of the block, from 1.';
comment on column seals.last_position is 'The last position of the block.';
comment on column seals.events is 'Number of events in the block. Some positions have no event.';
comment on column seals.root is
    'Root of the Merkle tree (RFC 6962) over the positions and digests of the block''s events.';
comment on column seals.previous_hash is
    'The hash of the seal before. The first seal has 32 zero bytes.';
comment on column seals.hash is 'SHA-256 of the previous hash and this seal.';

create function audit_refuse_change() returns trigger language plpgsql as $$
begin
    raise exception 'the audit log is append-only: % refused', tg_op using errcode = 'insufficient_privilege';
end $$;
comment on function audit_refuse_change() is 'Refuses every change of an audit entry or a seal.';
create trigger audit_log_refuse_change before update or delete or truncate on audit_log
    for each statement execute function audit_refuse_change();
create trigger seals_refuse_change before update or delete or truncate on seals
    for each statement execute function audit_refuse_change();
revoke update, delete, truncate on audit_log, seals from public;
