-- A database of its own, never in the main dump: without its rows the vault cannot be read.
create table data_keys (
    firm_id    uuid  not null,
    subject_id uuid  not null,
    wrapped    bytea not null,
    constraint data_keys_pkey primary key (firm_id, subject_id)
);
comment on table data_keys is 'One data key per subject (a response), wrapped by a key outside any database.';

create table wrapping_check (
    single boolean not null default true,
    sealed bytea   not null,
    constraint wrapping_check_pkey primary key (single),
    constraint wrapping_check_single_check check (single)
);
comment on table wrapping_check is 'A word sealed by the wrapping key this keyring was made with.';
