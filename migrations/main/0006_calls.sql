-- How often keys are used, and wrong ones tried. Their one writer is the projector crate.
-- Unlogged: after a crash of the server the windows begin anew, and nothing else is lost.
create unlogged table key_calls (
    key_id   uuid          not null,
    calls    timestamptz[] not null,
    place    integer       not null default 2,
    admitted boolean       not null default true,
    constraint key_calls_pkey primary key (key_id)
) with (fillfactor = 50);
comment on table key_calls is 'The last calls of each key that were admitted, as a ring: the one that the next call replaces must have left the window.';
comment on column key_calls.place is 'Where the next call goes.';
comment on column key_calls.admitted is 'Whether the last call was.';

create unlogged table wrong_keys (
    counter  integer       not null,
    calls    timestamptz[] not null,
    place    integer       not null default 2,
    admitted boolean       not null default true,
    constraint wrong_keys_pkey primary key (counter)
) with (fillfactor = 50);
comment on table wrong_keys is 'The same for calls with a wrong key, by a counter that addresses share: the table cannot grow past their number.';
