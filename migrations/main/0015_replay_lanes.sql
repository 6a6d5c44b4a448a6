-- What is waiting of a replay, by subscription: one whose receiver takes nothing keeps those of the others from
-- nothing.
alter table replay_items add column hook_id uuid;
comment on column replay_items.hook_id is 'Its subscription.';
update replay_items i set hook_id = d.hook_id
  from deliveries d where d.delivery_id = i.delivery_id and i.outcome is null;
drop index replay_items_waiting_idx;
create index replay_items_waiting_idx on replay_items (replay_id, hook_id, place) where outcome is null;
create index outbox_replay_idx on outbox (replay_id) where replay_id is not null;
