-- What operators hold. Its one writer is the projector crate, with the append; the claim reads it.
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
comment on table pauses is 'What is held now, mostly nothing; a row goes when it is resumed, and the log keeps both.';
comment on column pauses.actor is 'Who paused it, as the log writes it.';
-- The claim's connections scan no table from end to end.
create index pauses_kind_idx on pauses (kind);
