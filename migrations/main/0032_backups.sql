-- `doctor` and metrics tell the age of the last backup.
create table last_backup (
    single   boolean     not null default true,
    taken_at timestamptz not null,
    position bigint      not null,
    bytes    bigint      not null,
    constraint last_backup_pkey primary key (single),
    constraint last_backup_single_check check (single)
);
comment on table last_backup is
    'The last backup by `firmforms backup` that was finished, or the one this database is from.';
comment on column last_backup.single is 'Always true: the table has at most one row.';
comment on column last_backup.taken_at is 'Time of the snapshot of the main database.';
comment on column last_backup.position is 'Position that the log had reached in this snapshot.';
comment on column last_backup.bytes is 'Bytes of all files of the backup.';
