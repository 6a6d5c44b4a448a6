-- What lists are found by: a firm's keys, revoked ones too, and its deliveries that are not at their end.
create index key_auth_firm_idx on key_auth (firm_id, created_at desc, key_id desc);
create index deliveries_pending_idx on deliveries (firm_id, created_at desc, delivery_id desc)
    where state = 'pending';
