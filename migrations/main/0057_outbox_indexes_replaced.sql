-- The indexes that 0055 and 0056 replace.
drop index outbox_waiting_idx, outbox_response_idx;
