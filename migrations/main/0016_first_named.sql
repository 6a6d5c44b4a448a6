-- What finds an erasure's rows costs each response that is never erased a place in an index, at random: ids of
-- responses are given to us. So who is named on a response first is kept with it, and found by that
-- (0017 to 0019). Each of these migrations locks one table.
alter table responses add column person_id uuid;
comment on column responses.person_id is 'One of those who were first named on it; the row in response_people is found by it.';
