-- Exports ask for attempts by their start. A delivery that was queued before the asked time can have
-- attempts in it if it is pending, or ended after it. Nearly all deliveries end within a minute, so
-- this index costs such a delivery nothing.
create index deliveries_ended_later_idx on deliveries (firm_id, created_at desc, delivery_id desc)
    where ended_at is null or ended_at - created_at > interval '1 minute';
