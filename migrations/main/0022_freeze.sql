-- Rows of these tables stay for months and rarely change. Without these settings a vacuum reads and
-- rewrites each page of them again when its rows are 200 million transactions old: every few weeks.
-- With them, a vacuum freezes new pages soon after they are written, often still in memory, and no
-- later vacuum reads these pages. A count starts it, because a share of a growing table is reached
-- ever later.
alter table events set (
    autovacuum_freeze_min_age = 0, toast.autovacuum_freeze_min_age = 0,
    autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 1000000,
    toast.autovacuum_vacuum_insert_scale_factor = 0,
    toast.autovacuum_vacuum_insert_threshold = 1000000
);
alter table audit_log set (
    autovacuum_freeze_min_age = 0,
    autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 1000000
);
alter table responses set (
    autovacuum_freeze_min_age = 0, toast.autovacuum_freeze_min_age = 0,
    autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 1000000,
    toast.autovacuum_vacuum_insert_scale_factor = 0,
    toast.autovacuum_vacuum_insert_threshold = 1000000
);
alter table bodies set (
    autovacuum_freeze_min_age = 0, toast.autovacuum_freeze_min_age = 0,
    autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 1000000,
    toast.autovacuum_vacuum_insert_scale_factor = 0,
    toast.autovacuum_vacuum_insert_threshold = 1000000
);
