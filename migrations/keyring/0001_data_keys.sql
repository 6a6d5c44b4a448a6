-- The keyring is a database of its own and never part of the main dump. Nobody can read the vault
-- without its rows.

create table data_keys (
    firm_id    uuid  not null,
    subject_id uuid  not null,
    wrapped    bytea not null,
    constraint data_keys_pkey primary key (firm_id, subject_id)
);
comment on table data_keys is 'One data key per subject. To erase a subject is to delete its key.';
comment on column data_keys.subject_id is 'Id of a response, or of the reservation of an invite.';
comment on column data_keys.wrapped is
    'The data key, encrypted under the wrapping key. The wrapping key is outside any database.';
-- main/0001_log.sql says where the statistics targets come from.
alter table data_keys
    alter firm_id set statistics 10, alter subject_id set statistics 10,
    alter wrapped set statistics 10;
