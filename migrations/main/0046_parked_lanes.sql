-- Due lanes that a claim cannot take now do not stand before lanes that it can take. A claim that
-- finds only such lanes parks them: the lanes of a full or paused host in a queue of the host, of a
-- full or paused firm in a queue of the firm. A build without this column claims parked lanes as
-- any others.

alter table lanes add column parked_in text collate "C";
comment on column lanes.parked_in is
    'Queue of a due lane that waits for its host or its firm: h:<host> for a host at its limit or '
    'paused, u:<host> for a host that does not answer, f:<firm> for a firm at its share or paused, '
    'p:<lane> for a paused subscription. Null for any other lane.';

create index lanes_ready_idx on lanes (due_at)
    where due_at is not null and cancel_cause is null and paused_at is null and parked_in is null;
create index lanes_parked_idx on lanes (parked_in, due_at)
    where due_at is not null and cancel_cause is null and paused_at is null
      and parked_in is not null;
