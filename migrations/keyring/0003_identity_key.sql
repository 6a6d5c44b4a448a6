-- The identity key, which never changes.

create table identity_key (
    single boolean not null default true,
    sealed bytea   not null,
    constraint identity_key_pkey primary key (single),
    constraint identity_key_single_check check (single)
);
comment on table identity_key is 'The key that hashes addresses and signs unsubscribe links.';
comment on column identity_key.single is 'Always true: the table has at most one row.';
comment on column identity_key.sealed is 'The key, as ciphertext under the wrapping key.';
