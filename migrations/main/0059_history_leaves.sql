-- Old months of history can leave as a whole. A row for each keeps the act, and bounds each question
-- about history: an answer says when it would begin before the months that are kept.

create table history_drops (
    kept_since    timestamptz not null,
    range_name    text        not null,
    row_count     bigint      not null,
    last_ended_at timestamptz,
    dropped_at    timestamptz not null default now(),
    constraint history_drops_pkey primary key (kept_since)
);
comment on table history_drops is
    'Ranges of history that have left. `drop_history_range` writes it with the drop.';
comment on column history_drops.kept_since is
    'End of the range: deliveries that were queued earlier have left.';
comment on column history_drops.range_name is 'Name of the table that was dropped.';
comment on column history_drops.row_count is 'Number of its deliveries.';
comment on column history_drops.last_ended_at is
    'Last end of one of its deliveries, from which a list of attempts is whole.';
comment on column history_drops.dropped_at is 'Time of the drop.';

create function drop_history_range(range_end timestamptz) returns bigint
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp set timezone = 'UTC' set lock_timeout = '1s'
set enable_seqscan = on as $$
declare
    oldest    regclass;
    ends_at   timestamptz;
    is_needed boolean;
    counted   bigint;
    ended_at  timestamptz;
begin
    -- A rebuild compares history with the log up to one border. The lock also keeps two drops apart.
    if not pg_try_advisory_xact_lock(hashtext('firmforms rebuild')) then
        raise exception 'a rebuild or another drop is running' using errcode = 'FF002';
    end if;
    select inhrelid,
           substring(pg_get_expr(relpartbound, oid) from 'TO \(''([^'']+)''\)')::timestamptz
      into oldest, ends_at
      from pg_inherits join pg_class on oid = inhrelid
     where inhparent = 'public.deliveries'::regclass
     order by 2 limit 1;
    if ends_at is null or ends_at > range_end then
        return null;
    end if;
    if ends_at < range_end then
        raise exception 'an older range is there' using errcode = 'FF002';
    end if;
    if exists (
        select from (
            select recorded_at from public.events
             where position > (select position from public.checkpoints where name = 'deliveries')
             order by position limit 1) as next
         where recorded_at < ends_at) then
        raise exception 'history has not followed the log to its end' using errcode = 'FF002';
    end if;
    if exists (select from public.replays where state in ('running', 'paused')) then
        raise exception 'a replay has not ended' using errcode = 'FF002';
    end if;
    -- `offset 0` looks each delivery up, however few rows the planner expects.
    execute format(
        'select exists (
             select from (select delivery_id from public.outbox
                           union all select delivery_id from public.step_headers) as waiting
              where exists (select from %s as d where d.delivery_id = waiting.delivery_id offset 0))',
        oldest) into is_needed;
    if is_needed then
        raise exception 'a delivery of the range waits, or its headers are kept'
            using errcode = 'FF002';
    end if;
    execute format('select count(*), max(ended_at) from %s', oldest) into counted, ended_at;
    lock table public.deliveries in access exclusive mode;
    execute format('select exists (select from %s where state = ''pending'')', oldest)
        into is_needed;
    if is_needed then
        raise exception 'a delivery of the range is pending' using errcode = 'FF002';
    end if;
    insert into public.history_drops (kept_since, range_name, row_count, last_ended_at)
    select ends_at, relname, counted, ended_at from pg_class where oid = oldest;
    execute format('alter table public.deliveries detach partition %s', oldest);
    execute format('drop table %s', oldest);
    return counted;
end $$;
comment on function drop_history_range(timestamptz) is
    'Drops the oldest range of history, which ends then, if nothing needs its deliveries. Returns their '
    'number. It has the rights of its owner, for the projector.';

do $$
declare
    owner constant text := (select relowner::regrole from pg_class where oid = 'deliveries'::regclass);
begin
    execute format('alter table history_drops owner to %s', owner);
    execute format('alter function drop_history_range(timestamptz) owner to %s', owner);
end $$;
