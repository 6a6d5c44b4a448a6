-- A delivery's tries are the events of its stream, side by side in the log's primary key. A second copy of them cost
-- each delivery a row and an entry of an index, and could differ from the log.
drop table attempts;
