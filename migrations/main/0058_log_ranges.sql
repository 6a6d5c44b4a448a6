-- The log in ranges of positions, so that old deliveries can leave. What decides (firms, keys,
-- subscriptions, pauses) stays for good in `ranges.log_state`. Occurrences and deliveries lie in
-- `ranges.log_traffic`, in ranges of 2^24 positions, which share borders with blocks and with segments
-- of the archive. All of it is read and written through `events`.
-- A new database has this layout at once. `lay_out_log` brings another one to it in steps, beside
-- readers and writers, once no process of a build before 0.3.0 serves it.

create table places (
    id       uuid   not null,
    position bigint not null,
    constraint places_pkey primary key (id)
) with (
    autovacuum_freeze_min_age = 0,
    autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 1000000
);
alter table places alter id set statistics 10, alter position set statistics 10;
comment on table places is
    'Ids that are taken for good: of occurrences, and of deliveries that follow from no occurrence. '
    'A taken place outlives its event, so that a repeated report changes nothing.';
comment on column places.id is 'Id of the stream.';
comment on column places.position is 'Position of its first event.';

create function take_place() returns trigger language plpgsql as $$
begin
    insert into public.places (id, position) values (new.aggregate_id::uuid, new.position)
        on conflict do nothing;
    if found then
        return new;
    end if;
    return null;
end $$;
comment on function take_place() is 'Leaves an event out whose place is taken.';

create function refuse_taken() returns trigger language plpgsql security definer
set search_path = pg_catalog, pg_temp as $$
begin
    if exists (select from ranges.events_before
                where aggregate_type = new.aggregate_type and aggregate_id = new.aggregate_id
                  and sequence = new.sequence) then
        return null;
    end if;
    return new;
end $$;
comment on function refuse_taken() is
    'Leaves an event out whose sequence was taken before the log had ranges. It has the rights of its '
    'owner, because nobody else reads a range.';

create function finish_log_range(range regclass) returns void language plpgsql
set search_path = pg_catalog, pg_temp as $$
declare
    range_name constant text := (select relname from pg_class where oid = range);
begin
    execute format(
        'alter table %1$s
             add constraint %2$I primary key (aggregate_type, aggregate_id, sequence),
             add constraint %3$I unique (position),
             %4$s;
         alter table %1$s set (
             autovacuum_freeze_min_age = 0, toast.autovacuum_freeze_min_age = 0,
             autovacuum_vacuum_insert_scale_factor = 0,
             autovacuum_vacuum_insert_threshold = 1000000,
             toast.autovacuum_vacuum_insert_scale_factor = 0,
             toast.autovacuum_vacuum_insert_threshold = 1000000);
         create trigger events_refuse_change before update or delete or truncate on %1$s
             for each statement execute function public.events_refuse_change()',
        range, range_name || '_pkey', range_name || '_position_key',
        (select string_agg(format('alter %I set statistics 10', attname), ', ')
           from pg_attribute where attrelid = range and attnum > 0 and not attisdropped));
end $$;
comment on function finish_log_range(regclass) is
    'Gives a range of the log its keys, settings and guard.';

create function make_log_range(number bigint) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp set lock_timeout = '2s' as $$
declare
    range_name constant text := format('ranges.log_traffic_%s', number);
begin
    if to_regclass('ranges.log_traffic') is null or to_regclass(range_name) is not null
        or number < 0 then
        return;
    end if;
    execute format('create table %s (like public.events including all excluding identity)',
                   range_name);
    perform public.finish_log_range(range_name::regclass);
    execute format('alter table ranges.log_traffic attach partition %s for values from (%s) to (%s)',
                   range_name, (number << 24) + 1, ((number + 1) << 24) + 1);
end $$;
comment on function make_log_range(bigint) is
    'Makes the range of the log with this number, unless there is one. It has 2^24 positions. The '
    'function has the rights of its owner, for the projector.';

create function keep_log_whole() returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp set lock_timeout = '200ms' as $$
begin
    if exists (select from pg_constraint
                where conrelid = to_regclass('public.events') and conname = 'events_border_check') then
        alter table public.events drop constraint events_border_check;
    end if;
end $$;
comment on function keep_log_whole() is
    'Takes back what `lay_out_log` has begun, because a build before 0.3.0 serves the database again: '
    'the table as it is must take every position. It has the rights of its owner, for the projector.';

create function lay_out_log() returns boolean
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp set lock_timeout = '200ms' as $$
declare
    was        constant oid := to_regclass('public.events');
    ahead      constant bigint := 1 << 24;
    border     bigint;
    is_checked boolean;
    is_empty   boolean;
    drawn      bigint;
    made       text;
    copied     text[];
begin
    if (select relkind from pg_class where oid = was) = 'p' then
        return true;
    end if;
    select substring(pg_get_constraintdef(oid) from '< ''?(\d+)')::bigint, convalidated
      into border, is_checked
      from pg_constraint where conrelid = was and conname = 'events_border_check';
    select not exists (select from public.events) into is_empty;
    select case when is_called then last_value else 0 end into drawn
      from public.events_position_seq;
    if border is null and not is_empty then
        border := (drawn / ahead + 2) * ahead + 1;
        execute format('alter table public.events add constraint events_border_check
                            check (position < %s) not valid', border);
        return false;
    end if;
    -- No append may ever reach the border of the table as it is.
    if drawn > border - ahead / 2 then
        alter table public.events drop constraint events_border_check;
        return false;
    end if;
    if not is_checked then
        alter table public.events validate constraint events_border_check;
        return false;
    end if;
    lock table public.events in access exclusive mode;
    if is_empty and exists (select from public.events) then
        return false;
    end if;
    select case when is_called then last_value else 0 end into drawn
      from public.events_position_seq;
    drawn := greatest(drawn, border - 1);
    copied := array(
        select format('grant %s on public.%I to %s', privilege_type, relname,
                      case grantee when 0 then 'public' else grantee::regrole::text end)
          from pg_class cross join aclexplode(relacl)
         where oid in (was, to_regclass('public.events_position_seq')) and grantee <> relowner
         union all
        select format('grant %s (%I) on public.events to %s', privilege_type, attname,
                      case grantee when 0 then 'public' else grantee::regrole::text end)
          from pg_attribute cross join aclexplode(attacl)
         where attrelid = was and attnum > 0 and not attisdropped
         union all
        select 'alter table public.events enable row level security'
          from pg_class where oid = was and relrowsecurity
         union all
        select format('create policy %I on public.events as %s for %s to %s%s%s', policyname,
                      permissive, cmd,
                      (select string_agg(case role when 'public' then 'public'
                                                   else quote_ident(role) end, ', ')
                         from unnest(roles) as r(role)),
                      ' using (' || qual || ')', ' with check (' || with_check || ')')
          from pg_policies where schemaname = 'public' and tablename = 'events'
         union all
        select format('comment on table public.events is %L', obj_description(was, 'pg_class')));
    alter table public.events set schema ranges;
    alter table ranges.events rename to events_before;
    alter table ranges.events_before alter position drop identity;
    create table public.events (
        like ranges.events_before including all excluding indexes
    ) partition by range (position);
    if not is_empty then
        alter table public.events drop constraint events_border_check;
    end if;
    execute format('alter table public.events alter position add generated always as identity (
                        sequence name public.events_position_seq start with %s cache 1)', drawn + 1);
    if drawn > 0 then
        perform setval('public.events_position_seq', drawn);
    end if;
    foreach made in array copied loop
        execute made;
    end loop;
    execute (
        select format('alter table public.events %s',
                      string_agg(format('alter %I set statistics 10', attname), ', '))
          from pg_attribute where attrelid = to_regclass('public.events') and attnum > 0);
    create trigger events_draw_xid before insert on public.events
        for each statement execute function public.events_draw_xid();
    create trigger events_refuse_change before update or delete or truncate on public.events
        for each statement execute function public.events_refuse_change();
    revoke update, delete, truncate on public.events from public;
    execute format('create table ranges.log_kinds partition of public.events
                        for values from (%s) to (maxvalue) partition by list (aggregate_type)',
                   coalesce(border::text, 'minvalue'));
    create table ranges.log_state partition of ranges.log_kinds default;
    perform public.finish_log_range(to_regclass('ranges.log_state'));
    create index log_state_erasures_idx on ranges.log_state (position)
        where aggregate_type = 'Response';
    create table ranges.log_traffic partition of ranges.log_kinds
        for values in ('Occurrence', 'Delivery') partition by range (position);
    if is_empty then
        drop table ranges.events_before;
    else
        execute format('alter table public.events attach partition ranges.events_before
                            for values from (minvalue) to (%s)', border);
        alter table ranges.events_before drop constraint events_border_check;
        -- Triggers fire in the order of their names: this one comes before `take_place`.
        create trigger refuse_taken before insert on ranges.log_kinds
            for each row execute function public.refuse_taken();
    end if;
    create trigger take_place before insert on ranges.log_traffic
        for each row when (new.sequence = 1 and (
            new.aggregate_type = 'Occurrence'
            or new.event_type in ('DeliveryQueued', 'DeliveryReissued')))
        execute function public.take_place();
    for number in drawn >> 24 .. (drawn >> 24) + 2 loop
        perform public.make_log_range(number);
    end loop;
    return true;
end $$;
comment on function lay_out_log() is
    'Does the next step towards a log in ranges. Returns whether the log has them. It has the rights '
    'of its owner, for the projector. A step waits 200 ms for a lock at most.';

create function drop_log_range(number bigint) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp set lock_timeout = '1s' as $$
declare
    range_name constant text :=
        case when number < 0 then 'ranges.events_before' else format('ranges.log_traffic_%s', number) end;
    ends_at    bigint;
    is_oldest  boolean;
    ordered_at bigint;
begin
    if to_regclass(range_name) is null then
        return;
    end if;
    select substring(pg_get_expr(relpartbound, oid) from 'TO \(''?(\d+)')::bigint - 1 into ends_at
      from pg_class where oid = to_regclass(range_name);
    is_oldest := number < 0 or not exists (
        select from ranges.log_traffic where position <= number << 24);
    if number >= 0 and to_regclass('ranges.events_before') is not null then
        is_oldest := is_oldest and not exists (
            select from ranges.events_before where aggregate_type in ('Occurrence', 'Delivery'));
    end if;
    if not is_oldest then
        raise exception 'an older range is there' using errcode = 'FF002';
    end if;
    select max(position) into ordered_at from ranges.log_state
     where aggregate_type = 'Maintenance' and event_type = 'LogRangeDropOrdered'
       and (payload->'LogRangeDropOrdered'->>'number')::bigint = number;
    if ordered_at is null then
        raise exception 'no event says that the range is to leave' using errcode = 'FF002';
    end if;
    if not exists (select from public.last_signature where position >= ordered_at) then
        raise exception 'no signed checkpoint covers the order' using errcode = 'FF002';
    end if;
    -- The eraser reads only what stays.
    if exists (select from public.checkpoints where position < ends_at and name <> 'erase') then
        raise exception 'a follower has not read the range' using errcode = 'FF002';
    end if;
    if exists (select from public.outbox where position <= ends_at)
        or exists (select from public.unspread where position <= ends_at) then
        raise exception 'deliveries of the range have not ended' using errcode = 'FF002';
    end if;
    if exists (select from public.replays where state in ('running', 'paused')) then
        raise exception 'a replay has not ended' using errcode = 'FF002';
    end if;
    if (select last_value from public.events_position_seq) <= ends_at then
        raise exception 'the range is not full' using errcode = 'FF002';
    end if;
    if number >= 0 then
        execute format('alter table ranges.log_traffic detach partition %s', range_name);
        execute format('drop table %s', range_name);
        return;
    end if;
    -- The table of before has both kinds of events. What decides stays, in a table of the same name.
    insert into public.places (id, position)
    select aggregate_id::uuid, position from ranges.events_before
     where sequence = 1
       and (aggregate_type = 'Occurrence'
            or aggregate_type = 'Delivery'
               and event_type in ('DeliveryQueued', 'DeliveryReissued'))
        on conflict do nothing;
    create table ranges.log_state_before (like public.events including all excluding identity);
    perform public.finish_log_range(to_regclass('ranges.log_state_before'));
    create index log_state_before_erasures_idx on ranges.log_state_before (position)
        where aggregate_type = 'Response';
    insert into ranges.log_state_before
    select * from ranges.events_before where aggregate_type not in ('Occurrence', 'Delivery');
    execute format('alter table ranges.log_state_before
                        add constraint log_state_before_border_check check (position <= %s)', ends_at);
    alter table public.events detach partition ranges.events_before;
    drop table ranges.events_before;
    alter table ranges.log_state_before rename to events_before;
    alter table ranges.events_before rename constraint log_state_before_pkey to events_pkey;
    alter table ranges.events_before
        rename constraint log_state_before_position_key to events_position_key;
    alter index ranges.log_state_before_erasures_idx rename to events_erasures_idx;
    execute format('alter table public.events attach partition ranges.events_before
                        for values from (minvalue) to (%s)', ends_at + 1);
    alter table ranges.events_before drop constraint log_state_before_border_check;
end $$;
comment on function drop_log_range(bigint) is
    'Drops the oldest range of the log, or what can leave of the table of before (-1), if a signed '
    'event says so and nothing refers to it. It has the rights of its owner, for the projector.';

do $$
declare
    owner constant text := (select relowner::regrole from pg_class where oid = 'events'::regclass);
begin
    execute format('alter table places owner to %s', owner);
    execute format('alter function refuse_taken() owner to %s', owner);
    execute format('alter function make_log_range(bigint) owner to %s', owner);
    execute format('alter function drop_log_range(bigint) owner to %s', owner);
    execute format('alter function keep_log_whole() owner to %s', owner);
    execute format('alter function lay_out_log() owner to %s', owner);
    if not exists (select from events) then
        perform lay_out_log();
    end if;
end $$;
