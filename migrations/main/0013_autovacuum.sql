-- Tables whose rows change or go all the time are vacuumed by how many of them are dead, not by what part of
-- a table: how much room the dead take is bounded then, however large it is. They are small, so that a
-- vacuum of them need not pause (`cost_delay` 0). How often the server looks is its own setting
-- (`autovacuum_naptime`), and matters more: docs/performance.md, "What finished rows cost".

-- A row comes, is leased and goes within a second. A lease changes what is indexed: room on the pages
-- saves no write to an index here.
alter table outbox set (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
    autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0,
    autovacuum_analyze_threshold = 5000);
-- Each claim, record and fan-out writes its lanes.
alter table lanes set (
    autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 200,
    autovacuum_vacuum_cost_delay = 0);

-- What follows is updated in columns that no index has: with room on its page such an update writes to
-- no index. Rows are one per follower, firm and key.
alter table checkpoints set (
    fillfactor = 10, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 200,
    autovacuum_vacuum_cost_delay = 0);
alter table quotas set (
    fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 200,
    autovacuum_vacuum_cost_delay = 0);
alter table audit_heads set (
    fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 200,
    autovacuum_vacuum_cost_delay = 0);
alter table key_calls set (
    autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 500,
    autovacuum_vacuum_cost_delay = 0);

-- Queues that are slower: a row comes and goes.
alter table partials set (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000);
alter table open_invites set (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500);
alter table waiting_facts set (autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 500);

-- History: a fifth of a billion rows would be too late.
alter table deliveries set (
    autovacuum_vacuum_scale_factor = 0.01, autovacuum_analyze_scale_factor = 0.02);
