-- A database of its own, never in the main dump: without its rows the vault cannot be read.
create table data_keys (
    firm_id    uuid  not null,
    subject_id uuid  not null,
    wrapped    bytea not null,
    constraint data_keys_pkey primary key (firm_id, subject_id)
);
comment on table data_keys is 'One data key per subject (a response or an invite), wrapped by a key outside any database.';

create table wrapping_check (
    single boolean not null default true,
    sealed bytea   not null,
    rewrapping boolean not null default false,
    constraint wrapping_check_pkey primary key (single),
    constraint wrapping_check_single_check check (single)
);
comment on table wrapping_check is 'A word sealed by the wrapping key this keyring was made with.';
comment on column wrapping_check.rewrapping is 'Whether a part is under one key and the rest under another.';

create table identity_key (
    single boolean not null default true,
    sealed bytea   not null,
    constraint identity_key_pkey primary key (single),
    constraint identity_key_single_check check (single)
);
comment on table identity_key is 'The key that hashes addresses and signs unsubscribe links, wrapped; never changed.';
