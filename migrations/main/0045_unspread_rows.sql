-- How many rows an unspread occurrence stands for. The spread worker takes as many occurrences as
-- one transaction has room for. A build that does not know the column leaves its default, the most
-- rows that an occurrence can have.
alter table unspread add column rows_listed integer not null default 100;
comment on column unspread.rows_listed is
    'Number of deliveries that the occurrence lists, or more if a build did not count them.';
