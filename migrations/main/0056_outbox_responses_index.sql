-- no-transaction
-- 0055 says why.
create index concurrently if not exists outbox_responses_idx on outbox (firm_id, response_id)
    where leased_at is null and firm_id is not null;
