-- Pauses that operators set. The claim reads them.
-- Only the projector crate writes this table, in the transaction that appends.

create table pauses (
    pause_id  uuid        not null,
    kind      text        not null,
    firm_id   uuid,
    hook_id   uuid,
    host      text,
    reason    text        not null,
    actor     text        not null,
    paused_at timestamptz not null,
    constraint pauses_pkey primary key (pause_id),
    constraint pauses_kind_check check (kind in ('all', 'firm', 'hook', 'host')),
    constraint pauses_scope_check check (
        (firm_id is not null) = (kind in ('firm', 'hook'))
        and (hook_id is not null) = (kind = 'hook')
        and (host is not null) = (kind = 'host'))
);
comment on table pauses is
    'The pauses in force now: most often none. A resume deletes the row, and the log keeps both.';
comment on column pauses.kind is
    'Scope of the pause: all deliveries, or those of a firm, a subscription or a host.';
comment on column pauses.actor is 'The operator, in the notation of the log.';
-- The claim's connections may not scan a table from end to end.
create index pauses_kind_idx on pauses (kind);
