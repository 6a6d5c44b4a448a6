-- no-transaction
-- The expiry looks at unfinished responses of a firm. The index is made beside readers and writers.
create index concurrently if not exists responses_unfinished_idx on responses (firm_id, response_id)
    where submitted_at is null;
