-- What a call tells beside its answer: the calls that its key has left (ruling 39). And repeated
-- requests for a subscription: one Idempotency-Key makes one (ruling 40).

-- Like authenticate_keys, which stays for older builds that run in the same deploy.
--
-- A ring has two runs of rising times: from the place of the next call to the end, then from the
-- start to before that place. So the calls that have left the window are found by halving one run.
create function admit_keys(
    sha256s bytea[], now_at timestamptz, ring integer, seconds double precision
)
returns table (
    turn bigint, key_id uuid, key_name text, key_prefix text, firm_id uuid, firm_name text,
    firm_active boolean, leads_in_full boolean, calls_left integer, oldest timestamptz
)
language plpgsql security definer set search_path = public, pg_temp
    set plan_cache_mode = force_generic_plan set enable_seqscan = off set enable_hashjoin = off
    set enable_mergejoin = off
as $$
#variable_conflict use_column
declare
    passed constant timestamptz := now_at - make_interval(secs => seconds);
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
        returning key_id, admitted, calls, place,
                  case when place > cardinality(calls) then width_bucket(passed, calls)
                       when calls[cardinality(calls)] > passed
                       then width_bucket(passed, calls[place:])
                       else cardinality(calls) - place + 1
                            + width_bucket(passed, calls[:place - 1]) end as gone
    )
    select caller.*,
           case when counted.admitted
                then greatest(ring - cardinality(counted.calls) + counted.gone, 0) end,
           coalesce(full_ring.next,
                    case when counted.admitted
                         then counted.calls[(counted.place - 1 + counted.gone)
                                            % cardinality(counted.calls) + 1]
                         else counted.calls[counted.place] end)
      from caller left join full_ring using (key_id) left join counted using (key_id);
end $$;
comment on function admit_keys(bytea[], timestamptz, integer, double precision) is
    'The key and firm of each caller, by the SHA-256 of its key; revoked and unknown keys are left '
    'out. Counts one call of each key into its ring buffer. The list names each key once. '
    'calls_left is null for a call over the rate. oldest is the oldest call in the window: when it '
    'leaves, one more call passes.';

create table hook_requests (
    firm_id            uuid        not null,
    key_id             uuid        not null,
    idempotency_sha256 bytea       not null,
    body_sha256        bytea       not null,
    hook_id            uuid        not null,
    made_at            timestamptz not null,
    constraint hook_requests_pkey primary key (firm_id, key_id, idempotency_sha256),
    constraint hook_requests_idempotency_sha256_check check (octet_length(idempotency_sha256) = 32),
    constraint hook_requests_body_sha256_check check (octet_length(body_sha256) = 32)
);
comment on table hook_requests is
    'Requests for a subscription that had an Idempotency-Key, for 24 hours. Only the projector crate '
    'writes it.';
comment on column hook_requests.idempotency_sha256 is
    'SHA-256 of the header''s value. The value itself is kept nowhere.';
comment on column hook_requests.body_sha256 is
    'SHA-256 of the requested subscription, to tell a repetition from another request.';
comment on column hook_requests.hook_id is 'The subscription that the request made.';
create index hook_requests_made_idx on hook_requests (made_at);
