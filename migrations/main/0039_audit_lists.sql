-- Lists of a firm's entries by action, actor, subject and time, the newest first. Each filter has an
-- index that begins with it. A list by several reads the entries of one, and leaves those out that the
-- others refuse.
create index audit_log_at_idx on audit_log (firm_id, at, sequence);
create index audit_log_action_at_idx on audit_log (firm_id, action, at, sequence);
create index audit_log_actor_kind_idx on audit_log (firm_id, actor_kind, at, sequence);
create index audit_log_actor_idx on audit_log (firm_id, actor_id, at, sequence);
create index audit_log_subject_kind_idx on audit_log (firm_id, subject_kind, at, sequence);
create index audit_log_subject_at_idx on audit_log (firm_id, subject_id, at, sequence);
drop index audit_log_action_idx;
