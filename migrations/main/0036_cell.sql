-- The cell that new keys of this installation name (ruling 47).
-- Only the vault crate writes this table. No events stand for its row.
create table cell (
    single boolean  not null default true,
    cell   smallint not null,
    constraint cell_pkey primary key (single),
    constraint cell_single_check check (single),
    constraint cell_number_check check (cell between 0 and 63)
);
comment on table cell is
    'The number of this installation among those behind one address; no row for an installation '
    'of its own.';
comment on column cell.single is 'Always true: the table has at most one row.';
comment on column cell.cell is 'The number, from 0 to 63.';
