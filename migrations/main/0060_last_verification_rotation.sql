-- A daily verification reads the new events and a stretch of the older ones, no longer the whole log.
alter table last_verification
    add column intact_at timestamptz,
    add column intact_to bigint,
    add column reread_to bigint,
    add column needs_archive boolean not null default false,
    add constraint last_verification_intact_check check (
        (intact_at is null) = (intact_to is null) and (intact_at is null) = (reread_to is null));
comment on column last_verification.intact_at is
    'Time up to which the rotation through older events was done by the last intact verification.';
comment on column last_verification.intact_to is
    'Last position of the last intact verification. New events begin after it.';
comment on column last_verification.reread_to is
    'Position at which the next stretch of older events begins.';
comment on column last_verification.needs_archive is
    'Whether the log may be broken in the archive. Only a process with the archive verifies then.';
