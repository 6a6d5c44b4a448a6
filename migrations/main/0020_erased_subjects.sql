-- Which of many are erased is asked all the time, and hardly any are.
create index subjects_erased_idx on subjects (firm_id, subject_id) where erased;
