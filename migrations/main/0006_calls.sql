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

-- Whether a call of a ring has left the window, so that the next one may take its place. One from further
-- ahead than a window was counted by a clock that has been put back.
create function has_left_window(call timestamptz, now_at timestamptz, seconds double precision)
returns boolean language sql stable as $$
    select call is null or call not between
           now_at - make_interval(secs => seconds) + interval '1 microsecond'
           and now_at + make_interval(secs => seconds)
$$;

-- Who these keys are, by their SHA-256, each named once; and the call of each counted into its ring, if there
-- is room in the window. The one look that no firm guards, since it says which firm it is: it answers with the
-- rights of whoever owns the tables, and only to who holds the key.
-- In plpgsql, since the plan is kept then. The settings see to it that it is the same for full tables as for
-- empty ones: each key is looked up by itself. Rings are locked in the order of their keys' ids.
create function authenticate_keys(sha256s bytea[], now_at timestamptz, ring integer,
                                  seconds double precision)
returns table (turn bigint, key_id uuid, key_name text, key_prefix text, firm_id uuid, firm_name text,
               firm_active boolean, leads_in_full boolean, full_since timestamptz)
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

-- The live subscriptions of a key, for who has shown it: seen with the guard of its firm, which ends with the
-- statement that asks. None for no key.
create function hooks_of_key(shown uuid, of_firm uuid)
returns table (hook_id uuid, trigger text, target_url text, form_id uuid, created_at timestamptz,
               created_position bigint)
language plpgsql strict rows 10 as $$
#variable_conflict use_column
declare
    guard constant text := set_config('firmforms.firm', of_firm::text, true);
begin
    return query
    select hook_id, trigger, target_url, form_id, created_at, created_position from hooks
     where key_id = shown and removed_at is null;
end $$;
