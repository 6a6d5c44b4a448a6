-- API keys, and the rate limits of calls.
-- Only the projector crate writes these tables.

create table key_auth (
    key_id     uuid        not null,
    firm_id    uuid        not null,
    member_id  uuid        not null,
    name       text        not null,
    prefix     text        not null,
    sha256     bytea       not null,
    created_at timestamptz not null,
    revoked_at timestamptz,
    constraint key_auth_pkey primary key (key_id),
    constraint key_auth_sha256_key unique (sha256),
    constraint key_auth_sha256_check check (octet_length(sha256) = 32)
);
comment on table key_auth is
    'The API keys. Each call reads its key here, so a revoked key is refused at once.';
comment on column key_auth.member_id is 'The member that made the key.';
comment on column key_auth.name is 'The label that the member gave the key.';
comment on column key_auth.prefix is 'The first characters of the key, for people to recognise it.';
comment on column key_auth.sha256 is 'SHA-256 of the key. The key itself is kept nowhere.';
create index key_auth_member_idx on key_auth (firm_id, member_id) where revoked_at is null;
-- The list of a firm's keys includes revoked ones.
create index key_auth_firm_idx on key_auth (firm_id, created_at desc, key_id desc);

-- The two tables of calls are unlogged: after a crash of the server the windows begin anew, and
-- nothing else is lost.
create unlogged table key_calls (
    key_id   uuid          not null,
    calls    timestamptz[] not null,
    place    integer       not null default 2,
    admitted boolean       not null default true,
    constraint key_calls_pkey primary key (key_id)
) with (
    fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 500,
    autovacuum_vacuum_cost_delay = 0
);
comment on table key_calls is
    'The last admitted calls of each key, as a ring buffer. A call is admitted if the call that it '
    'replaces has left the window.';
comment on column key_calls.calls is 'The ring buffer: times of admitted calls.';
comment on column key_calls.place is 'Index in the ring buffer of the next call.';
comment on column key_calls.admitted is 'Whether the last call was admitted.';

create unlogged table wrong_keys (
    counter  integer       not null,
    calls    timestamptz[] not null,
    place    integer       not null default 2,
    admitted boolean       not null default true,
    constraint wrong_keys_pkey primary key (counter)
) with (fillfactor = 50);
comment on table wrong_keys is
    'The last admitted calls with a wrong key, as a ring buffer per counter. Addresses share a '
    'fixed number of counters, so the table cannot grow past that number.';
comment on column wrong_keys.counter is
    'Number of the counter, from a hash of the caller''s address.';
comment on column wrong_keys.calls is 'The ring buffer: times of admitted calls.';
comment on column wrong_keys.place is 'Index in the ring buffer of the next call.';
comment on column wrong_keys.admitted is 'Whether the last call was admitted.';

create function has_left_window(call timestamptz, now_at timestamptz, seconds double precision)
returns boolean language sql stable as $$
    select call is null or call not between
           now_at - make_interval(secs => seconds) + interval '1 microsecond'
           and now_at + make_interval(secs => seconds)
$$;
comment on function has_left_window(timestamptz, timestamptz, double precision) is
    'Whether a call of a ring buffer has left the window, so that the next call may replace it. A '
    'call more than one window in the future was counted by a clock that was later put back, and '
    'has left the window too.';

-- This function finds the firm of a caller, so no guard by firm can hold for it. It therefore runs
-- with the rights of the tables' owner, and answers only a caller that knows the SHA-256 of a key.
-- PL/pgSQL keeps the plan between calls. The settings give full and empty tables the same plan,
-- which looks up each key by itself. The insert locks the rings in the order of the key ids.
create function authenticate_keys(
    sha256s bytea[], now_at timestamptz, ring integer, seconds double precision
)
returns table (
    turn bigint, key_id uuid, key_name text, key_prefix text, firm_id uuid, firm_name text,
    firm_active boolean, leads_in_full boolean, full_since timestamptz
)
language plpgsql security definer set search_path = public, pg_temp
    set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off
    set enable_mergejoin = off
as $$
#variable_conflict use_column
begin
    return query
    with caller as materialized (
        select a.turn, k.key_id, k.name as key_name, k.prefix as key_prefix, f.firm_id,
               f.name as firm_name, f.status = 'active' as firm_active, f.leads_in_full
          from unnest(sha256s) with ordinality as a(sha256, turn)
          join key_auth k on k.sha256 = a.sha256 and k.revoked_at is null
          join firms f on f.firm_id = k.firm_id
    ), full_ring as (
        select key_id, c.calls[c.place] as next from key_calls c join caller using (key_id)
         where not has_left_window(c.calls[c.place], now_at, seconds)
    ), counted as (
        insert into key_calls as c (key_id, calls) select key_id, array[now_at] from caller
         where not exists (select 1 from full_ring where full_ring.key_id = caller.key_id)
         order by key_id
            on conflict (key_id) do update
           set admitted = has_left_window(c.calls[c.place], now_at, seconds),
               calls[c.place] = case when has_left_window(c.calls[c.place], now_at, seconds)
                                     then now_at else c.calls[c.place] end,
               place = case when has_left_window(c.calls[c.place], now_at, seconds)
                            then c.place % ring + 1 else c.place end
        returning key_id, case when not admitted then calls[place] end as next
    )
    select caller.*, coalesce(full_ring.next, counted.next)
      from caller left join full_ring using (key_id) left join counted using (key_id);
end $$;
comment on function authenticate_keys(bytea[], timestamptz, integer, double precision) is
    'The key and firm of each caller, by the SHA-256 of its key; revoked and unknown keys are left '
    'out. Counts one call of each key into its ring buffer. The list names each key once. A call '
    'over the rate has full_since set: the oldest call in the window.';
