-- Lists of a firm's entries by actor, by kind of subject and by time. Few of a long chain may meet a
-- filter, and none of the others is read.
create index audit_log_actor_kind_idx on audit_log (firm_id, actor_kind, sequence);
create index audit_log_actor_idx on audit_log (firm_id, actor_id, sequence);
create index audit_log_subject_kind_idx on audit_log (firm_id, subject_kind, sequence);
create index audit_log_at_idx on audit_log (firm_id, at, sequence);
