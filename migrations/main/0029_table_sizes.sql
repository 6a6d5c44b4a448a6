-- Growth is the difference of two days. PostgreSQL keeps the present sizes only.
create table table_sizes (
    table_name text   not null,
    day        date   not null,
    rows       bigint not null,
    bytes      bigint not null,
    constraint table_sizes_pkey primary key (day, table_name)
);
comment on table table_sizes is
    'The size of each table at the first sweep of each day, for 100 days. Housekeeping writes it.';
comment on column table_sizes.rows is 'Live rows, as the server last estimated them.';
comment on column table_sizes.bytes is 'Bytes of the table with its indexes and TOAST.';
