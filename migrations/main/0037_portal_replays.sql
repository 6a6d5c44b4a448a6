-- The portal hides the form for a replay while one waits. It finds it by the delivery.
create index replay_items_delivery_idx on replay_items (delivery_id) where outcome is null;
