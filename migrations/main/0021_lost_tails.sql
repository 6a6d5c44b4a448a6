-- The alarms for a lost end of the log (ruling 43).
-- Only the eventstore crate writes this table.

create table lost_tails (
    system_identifier bigint      not null,
    timeline          text        not null,
    started_at        timestamptz not null,
    noticed_at        timestamptz not null,
    from_position     bigint      not null,
    to_position       bigint      not null,
    acknowledged_at   timestamptz,
    acknowledged_by   text,
    constraint lost_tails_pkey primary key (system_identifier, timeline, started_at),
    constraint lost_tails_acknowledged_check
        check ((acknowledged_at is null) = (acknowledged_by is null))
);
comment on table lost_tails is
    'Losses of the end of the log. One row for each life of the server in which a process missed '
    'events that it had seen committed.';
comment on column lost_tails.started_at is 'The start of the server whose log is shorter.';
comment on column lost_tails.from_position is
    'The lowest position at which an event is missed. Events below it may be lost too.';
comment on column lost_tails.acknowledged_by is
    'The operator who has dealt with the loss. Until then no process is ready.';
