-- What finds an erasure's rows costs each response that is never erased a place in an index, at random: ids of
-- responses are given to us. So who is named on a response first is kept with it, and only those named later
-- are found by the response.
alter table responses add column person_id uuid;
comment on column responses.person_id is 'Who was named on it first, as in response_people; who is not further there.';
alter table response_people add column further boolean not null default true;
alter table response_people alter column further drop default;
comment on column response_people.further is 'Whether the response does not know it: named before it came, or after another.';
drop index response_people_response_idx;
create index response_people_further_idx on response_people (firm_id, response_id) where further;

-- Which of many are erased is asked all the time, and hardly any are.
create index subjects_erased_idx on subjects (firm_id, subject_id) where erased;
