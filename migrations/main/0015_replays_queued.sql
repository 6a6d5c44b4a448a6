-- What is queued of each replay: no more of it than it may send in a second.

create index replay_items_queued_idx on replay_items (replay_id) where outcome = 'queued';
