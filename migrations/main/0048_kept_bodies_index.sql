-- Bodies that are kept beyond the time of an ordinary delivery. The purge walks over the bodies and
-- asks which ones are still needed. Nearly all deliveries arrive within a minute and are written
-- once, so they are not in this index.
create index deliveries_kept_body_idx on deliveries (body_id)
    where body_id is not null
      and (state <> 'delivered' or ended_at - created_at > interval '1 minute');
