-- As in the main database (main/0021_upkeep.sql).
alter table data_keys alter column firm_id set statistics 10;
alter table data_keys alter column subject_id set statistics 10;
alter table data_keys alter column wrapped set statistics 10;
