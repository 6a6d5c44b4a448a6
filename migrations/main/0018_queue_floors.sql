-- Scans of the work queues begin behind what was taken. While a snapshot is held, the indexes keep
-- an entry of every row that was taken since, and a scan from the start would visit them all.

alter table lanes
    add column waiting_from timestamptz not null default '-infinity',
    add column waiting_from_xid xid;
comment on column lanes.waiting_from is
    'No row of the lane that nobody has leased is due before this time. Holds only if '
    'waiting_from_xid is the xmin of this row.';
comment on column lanes.waiting_from_xid is
    'The transaction that wrote waiting_from. A later write by something that does not know '
    'waiting_from leaves another xmin, and the floor does not hold any more.';

-- A claim passes over full and held hosts, each in one step.
create index lanes_host_idx on lanes (host, due_at)
    where due_at is not null and cancel_cause is null and paused_at is null;

alter table lane_wakes
    add column due_at timestamptz not null default '-infinity',
    add column woken_by xid8 not null default pg_current_xact_id(),
    drop constraint lane_wakes_pkey,
    add constraint lane_wakes_pkey primary key (woken_by, wake_id);
comment on column lane_wakes.due_at is 'Time at which the first of the new rows is due.';
comment on column lane_wakes.woken_by is
    'The transaction that made the wake. All wakes of older transactions than the oldest that runs '
    'can be seen, so a reader that took them need not look there again.';
