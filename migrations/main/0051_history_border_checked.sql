-- The second step checks the rows that were there before. It reads the whole table, beside readers
-- and writers.
alter table deliveries validate constraint deliveries_border_check;
