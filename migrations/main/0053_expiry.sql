-- A response that nobody reports about for a long time can expire: it loses its contents like an
-- erased one, until it is reported again. The day of the last report is kept with each subject. For
-- those that are there already it is the day of this migration.
alter table subjects
    add column expired_as text,
    add column reported_on date not null default current_date,
    add constraint subjects_expired_check
        check (expired_as is null or erased and expired_as in ('saved', 'submitted')) not valid;
comment on column subjects.expired_as is
    'How the response stood when it expired. Null unless its contents are gone for that reason.';
comment on column subjects.reported_on is
    'Day of the last report about the subject, by UTC. A report about a part counts for its response.';
alter table subjects
    alter expired_as set statistics 10, alter reported_on set statistics 10;
