-- no-transaction
-- The indexes of waiting rows are made anew (0055 to 0057), beside readers and writers. While the
-- queue is short, an index can seem empty to the planner, and reading all of it cheaper than a look
-- by another index. The plan is kept, and reads all of a long queue later. Each new index can only
-- serve a statement that asks for its first column: that condition implies that it is not null.
create index concurrently if not exists outbox_lanes_idx on outbox (lane_id, due_at, position)
    where leased_at is null and lane_id is not null;
