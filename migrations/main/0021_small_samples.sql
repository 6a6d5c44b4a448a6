-- `analyze` of a table reads 300 rows for each unit of the largest target among its columns: of the default of 100,
-- 30,000 pages at random, for one to three seconds once a table no longer fits the buffers. So long no dead row of any table may
-- be taken away, of lanes some thousand a second. What is asked of these tables is by key, and a tenth of the sample says all
-- that a plan needs. The tables of the keyring have the same.
do $$
declare
    of_what_grows record;
begin
    for of_what_grows in
        select attrelid::regclass as grows, attname from pg_attribute
         where attrelid = any (array[
                   'events', 'deliveries', 'attempts', 'answers', 'bodies', 'responses', 'response_people', 'subjects',
                   'reports', 'bookings', 'activity_seen', 'audit_log']::regclass[])
           and attnum > 0 and not attisdropped
    loop
        execute format('alter table %s alter column %I set statistics 10', of_what_grows.grows, of_what_grows.attname);
    end loop;
end $$;

-- A hundredth of a history that has just begun was every minute.
alter table deliveries set (autovacuum_vacuum_threshold = 100000);
