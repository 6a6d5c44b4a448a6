-- Processes of the build before write no `further`: what they write is found by its index (0018).
alter table response_people add column further boolean not null default true;
comment on column response_people.further is 'Whether it is not found by the response''s own row.';
