-- History moves into ranges in three steps (0050 to 0052), so that no caller waits. This first step
-- sets the end of the first range, which will be the table as it is: the beginning of the month after
-- next. New rows are checked from now on.
do $$
declare
    border constant timestamptz :=
        (date_trunc('month', now() at time zone 'UTC') + interval '2 months') at time zone 'UTC';
begin
    lock table deliveries in access exclusive mode;
    execute format('alter table deliveries add constraint deliveries_border_check
                        check (created_at < %L) not valid', border);
end $$;
