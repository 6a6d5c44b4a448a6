-- The URL of a workflow step, which may name people (ruling 44). A row of an older build has none: the
-- order in `outbox.step` has the URL then.

alter table step_headers add column url bytea;
comment on table step_headers is 'The extra headers and the URL of workflow steps.';
comment on column step_headers.url is
    'Ciphertext under the key of the response. Null if an older build queued the step.';
