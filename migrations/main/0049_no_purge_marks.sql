-- Purged deliveries are not marked any more. What the vault still has tells as much, and a mark was
-- a second write of each delivery, with all its index entries. The purge of a build that marks reads
-- the whole table without these indexes, until that build is stopped.
drop index deliveries_ended_idx;
drop index deliveries_body_idx;
comment on column deliveries.purged is
    'Written by builds before 0.3.0 alone. A rebuild resets it.';
