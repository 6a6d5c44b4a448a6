-- The check that a process has the wrapping key of this keyring.

create table wrapping_check (
    single     boolean not null default true,
    sealed     bytea   not null,
    rewrapping boolean not null default false,
    constraint wrapping_check_pkey primary key (single),
    constraint wrapping_check_single_check check (single)
);
comment on table wrapping_check is
    'A fixed word, encrypted under the wrapping key. A process with another key cannot decrypt it.';
comment on column wrapping_check.single is 'Always true: the table has at most one row.';
comment on column wrapping_check.sealed is 'The word, as ciphertext under the wrapping key.';
comment on column wrapping_check.rewrapping is
    'Whether a change of the wrapping key is under way: some rows are then under the old key.';
