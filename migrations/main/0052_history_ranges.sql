-- The third step: history lies in ranges, a month of `created_at` each. Old history can leave as a
-- whole, and the present indexes stay small. The ranges are in a schema of their own, and are read
-- and written through `deliveries` alone. The table as it was becomes the first range. A build that
-- knows no ranges goes on until the end of that range, a month at least.

create schema ranges;

do $$
declare
    was      constant oid := 'deliveries'::regclass;
    border   constant text := (
        select substring(pg_get_constraintdef(oid) from '''([^'']+)''') from pg_constraint
         where conrelid = was and conname = 'deliveries_border_check');
    owner    constant text := (select relowner::regrole from pg_class where oid = was);
    is_empty boolean;
    made     text;
begin
    lock table deliveries in access exclusive mode;
    execute format('alter schema ranges owner to %s', owner);
    -- An installation that has begun needs a range for processes that cannot make one.
    select not exists (select from events) into is_empty;
    alter table deliveries set schema ranges;
    alter table ranges.deliveries rename to deliveries_before;
    create table deliveries (
        like ranges.deliveries_before including all excluding indexes
    ) partition by range (created_at);
    alter table deliveries drop constraint deliveries_border_check;
    execute format('alter table deliveries owner to %s', owner);
    for made in
        select replace(pg_get_indexdef(indexrelid), ' ON ranges.deliveries_before ',
                       ' ON public.deliveries ')
          from pg_index where indrelid = was and not indisunique
         union all
        select format('alter table deliveries alter %I set statistics %s', attname, attstattarget)
          from pg_attribute where attrelid = was and attnum > 0 and not attisdropped
                              and attstattarget >= 0
         union all
        select format('comment on table deliveries is %L', obj_description(was, 'pg_class'))
         union all
        select format('grant %s on deliveries to %s', privilege_type,
                      case grantee when 0 then 'public' else grantee::regrole::text end)
          from pg_class cross join aclexplode(relacl) where oid = was and grantee <> relowner
         union all
        select format('grant %s (%I) on deliveries to %s', privilege_type, attname,
                      case grantee when 0 then 'public' else grantee::regrole::text end)
          from pg_attribute cross join aclexplode(attacl) where attrelid = was
         union all
        select 'alter table deliveries enable row level security'
          from pg_class where oid = was and relrowsecurity
         union all
        select format('create policy %I on deliveries as %s for %s to %s%s%s', policyname, permissive,
                      cmd, (select string_agg(case role when 'public' then 'public'
                                                        else quote_ident(role) end, ', ')
                              from unnest(roles) as r(role)),
                      ' using (' || qual || ')', ' with check (' || with_check || ')')
          from pg_policies where schemaname = 'ranges' and tablename = 'deliveries_before'
    loop
        execute made;
    end loop;
    if is_empty then
        drop table ranges.deliveries_before;
    else
        execute format('alter table deliveries attach partition ranges.deliveries_before
                            for values from (minvalue) to (%L)', border);
        alter table ranges.deliveries_before drop constraint deliveries_border_check;
    end if;
end $$;

create function make_history_range(history regclass, at timestamptz) returns void
language plpgsql volatile security definer
set search_path = pg_catalog, pg_temp set timezone = 'UTC' as $$
declare
    month      constant timestamptz := date_trunc('month', at);
    range_name constant text := to_char(month, '"deliveries_"YYYY_MM');
    home       text;
    before_to  timestamptz;
    made       text;
begin
    select case nspname when 'public' then 'ranges' else nspname end into home
      from pg_class c join pg_namespace n on n.oid = relnamespace
     where c.oid = history and relname = 'deliveries' and nspname in ('public', 'shadow');
    if home is null then
        raise exception '% has no ranges', history;
    end if;
    if to_regclass(format('%I.%I', home, range_name)) is not null then
        return;
    end if;
    select substring(pg_get_expr(relpartbound, oid) from 'TO \(''([^'']+)''\)') into before_to
      from pg_class where oid = to_regclass(format('%I.deliveries_before', home));
    if at < before_to then
        return;
    end if;
    execute format(
        'create table %1$I.%2$I (
             like %3$s including all excluding indexes, primary key (delivery_id)
         ) with (
             autovacuum_vacuum_scale_factor = 0.01, autovacuum_analyze_scale_factor = 0.02,
             autovacuum_vacuum_threshold = 100000, autovacuum_vacuum_cost_delay = 10)',
        home, range_name, history);
    execute (
        select format('alter table %I.%I %s', home, range_name,
                      string_agg(format('alter %I set statistics %s', attname, attstattarget), ', '))
          from pg_attribute
         where attrelid = history and attnum > 0 and not attisdropped and attstattarget >= 0);
    for made in
        select replace(regexp_replace(pg_get_indexdef(indexrelid), ' ON (ONLY )?\S+ ',
                                      format(' ON %I.%I ', home, range_name)),
                       'INDEX deliveries_', 'INDEX ' || range_name || '_')
          from pg_index where indrelid = history
    loop
        execute made;
    end loop;
    execute format('alter table %s attach partition %I.%I for values from (%L) to (%L)',
                   history, home, range_name, month, month + interval '1 month');
end $$;
comment on function make_history_range(regclass, timestamptz) is
    'Makes the range of `deliveries` for this time, unless there is one. It has the rights of its '
    'owner, for the projector.';
do $$
begin
    execute format('alter function make_history_range(regclass, timestamptz) owner to %s',
                   (select relowner::regrole from pg_class where oid = 'deliveries'::regclass));
end $$;
