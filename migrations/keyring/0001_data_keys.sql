-- A database of its own, never in the main dump: without its rows the vault cannot be read.
create table data_keys (
    firm_id    uuid  not null,
    subject_id uuid  not null,
    wrapped    bytea not null,
    constraint data_keys_pkey primary key (firm_id, subject_id)
);
comment on table data_keys is 'One data key per subject (a response), wrapped by a key outside any database.';
