-- Tables whose rows change or go all the time are vacuumed by how much of them is dead, not by what part of
-- them: by the server's own settings (50 rows and a fifth, a look a minute, and a pause of 2 ms for each
-- 200 of cost) a queue that has emptied is read through its dead rows meanwhile. `cost_delay` 0: they
-- are small, and a claim that waits for a vacuum costs more than the vacuum. What is updated in place
-- keeps room for it on its pages (`fillfactor`), so that an update that changes no indexed column writes to
-- no index.

-- A row comes, is leased and goes within a second.
alter table outbox set (
    fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 10000,
    autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0,
    autovacuum_analyze_threshold = 5000);

-- Each claim, each record and each fan-out writes its lanes; there are few of them.
alter table lanes set (
    fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 200,
    autovacuum_vacuum_cost_delay = 0);

-- A row per follower, written with every batch.
alter table checkpoints set (
    fillfactor = 10, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200,
    autovacuum_vacuum_cost_delay = 0);

-- A row per key, written by every call.
alter table key_calls set (
    autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 500,
    autovacuum_vacuum_cost_delay = 0);
alter table wrong_keys set (
    autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 500,
    autovacuum_vacuum_cost_delay = 0);

-- A row per firm, written by each invite, key and subscription; a chain's end, by each entry.
alter table quotas set (
    fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 200,
    autovacuum_vacuum_cost_delay = 0);
alter table audit_heads set (
    fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 200,
    autovacuum_vacuum_cost_delay = 0);

-- Queues: a row comes and goes.
alter table partials set (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);
alter table open_invites set (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500);
alter table waiting_facts set (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500);
alter table replay_items set (
    fillfactor = 80, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 1000);

-- History: 200 of a billion rows would wait for each other. By a part of it, but of a hundredth; a row
-- is written two or three times while it is young.
alter table deliveries set (
    fillfactor = 90, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_insert_scale_factor = 0.05,
    autovacuum_analyze_scale_factor = 0.02);
