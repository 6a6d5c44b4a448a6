-- `analyze` reads 300 rows for each unit of the largest target among a table's columns: with the default of 100,
-- 30,000 pages at random, which takes one to three seconds once the table outgrows the server's memory. Meanwhile it
-- holds a snapshot, and dead rows of all tables stay: lanes alone leave a thousand a second. These tables are asked by
-- key; a tenth of the sample says all that a plan needs. Nobody who reads or writes waits for these locks.
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

-- A vacuum of history goes through all its indexes. In one go that took a tenth of two busy cores for half a minute,
-- and events waited for up to five seconds.
alter table deliveries set (autovacuum_vacuum_threshold = 100000, autovacuum_vacuum_cost_delay = 10);
