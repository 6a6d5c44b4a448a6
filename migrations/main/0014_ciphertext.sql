-- Ciphertext cannot be compressed: nobody tries. Most documents and bodies have some 2 KiB, a little more
-- than PostgreSQL keeps in a row by itself: up to two rows a page they stay in it, and cost no second table and
-- index. What is there already stays where it is.
alter table responses alter column document set storage external;
alter table responses set (toast_tuple_target = 4080);
alter table reports alter column document set storage external;
alter table reports set (toast_tuple_target = 4080);
alter table bookings alter column document set storage external;
alter table bookings set (toast_tuple_target = 4080);
alter table bodies alter column ciphertext set storage external;
alter table bodies set (toast_tuple_target = 4080);
