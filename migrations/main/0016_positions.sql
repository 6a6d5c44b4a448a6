-- no-transaction
-- Positions begin at 1. An event or an entry below would come before everything that was ever
-- verified. The script can run twice: a crash between its transaction and its end leaves no mark.
begin;
alter table events drop constraint if exists events_position_check;
alter table events add constraint events_position_check check (position > 0) not valid;
alter table audit_log drop constraint if exists audit_log_position_check;
alter table audit_log add constraint audit_log_position_check check (position > 0) not valid;
commit;

-- The check of the rows that are there reads whole tables. It blocks no writer, but it would if it
-- were in the transaction above, whose locks block everybody.
alter table events validate constraint events_position_check;
alter table audit_log validate constraint audit_log_position_check;
