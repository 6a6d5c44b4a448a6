-- Reads an archive of the log with DuckDB, in place:
--
--     duckdb -cmd "set variable archive = '/var/archive/firmforms'" \
--         -cmd '.read docs/recipes/archive.sql'
--
-- Hashes are checked by read_archive.py and by `firmforms archive verify`. Examples:
--
--     from archived where id = '01a196fb-1600-8327-b2a3-d1b59dc24e3d';     -- all of a delivery
--     from attempts where firm_id = '589843d7-6635-4f7b-890c-c8c4c1d192d3' -- a firm's in March
--       and recorded_at >= '2026-03-01' and recorded_at < '2026-04-01';

set timezone = 'UTC';

create or replace temp view archived as
select position, event->>'aggregate_type' as kind, event->>'aggregate_id' as id,
       (event->>'sequence')::bigint as sequence, event->>'event_type' as event_type,
       event->>'firm_id' as firm_id, (event->>'recorded_at')::timestamptz as recorded_at, event
  from read_json(getvariable('archive') || '/*.events.jsonl.gz',
                 format = 'newline_delimited', columns = {position: 'bigint', event: 'json'});

create or replace temp view attempts as
select position, id as delivery_id, firm_id, recorded_at,
       attempt->>'number' as number, attempt->>'outcome' as outcome, attempt->>'status' as status
  from (select *, event->'payload'->'DeliveryAttempted' as attempt from archived
         where event_type = 'DeliveryAttempted');
