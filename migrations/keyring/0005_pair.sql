-- The pair of databases, and how far erasures were carried out here.

-- A dead row still holds its key. The default would leave two million of ten million of them.
alter table data_keys set (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

create table installation (
    single          boolean not null default true,
    installation_id uuid    not null,
    constraint installation_pkey primary key (single),
    constraint installation_single_check check (single)
);
comment on table installation is
    'The id that this keyring and its main database share. A process on a strange pair does not '
    'start.';
comment on column installation.single is 'Always true: the table has at most one row.';

create table erased_up_to (
    single   boolean not null default true,
    position bigint  not null,
    digest   bytea   not null,
    constraint erased_up_to_pkey primary key (single),
    constraint erased_up_to_single_check check (single)
);
comment on table erased_up_to is
    'The last erasure of the log whose data key was deleted here. A start carries out later ones.';
comment on column erased_up_to.single is 'Always true: the table has at most one row.';
comment on column erased_up_to.position is 'Position of the erasure in the main database''s log.';
comment on column erased_up_to.digest is
    'Digest of that event. A restored main database has another event there, or none.';
