-- Sign-ins at the console by a provider of OpenID Connect.
-- Only the projector crate writes these tables.

create table sign_ins (
    cookie_sha256 bytea       not null,
    flow_sha256   bytea       not null,
    sign_in_id    uuid        not null,
    user_id       uuid        not null,
    role          text        not null,
    firm_ids      uuid[],
    grants_sha256 bytea       not null,
    ends_at       timestamptz not null,
    constraint sign_ins_pkey primary key (cookie_sha256),
    constraint sign_ins_flow_key unique (flow_sha256),
    constraint sign_ins_cookie_check check (octet_length(cookie_sha256) = 32),
    constraint sign_ins_flow_check check (octet_length(flow_sha256) = 32),
    constraint sign_ins_grants_check check (octet_length(grants_sha256) = 32),
    constraint sign_ins_role_check check (role in ('operator', 'auditor')),
    constraint sign_ins_firm_ids_check check (cardinality(firm_ids) > 0)
);
comment on table sign_ins is 'A session of a user of the provider, until ten minutes after its end.';
comment on column sign_ins.cookie_sha256 is 'SHA-256 of the cookie. The cookie is kept nowhere.';
comment on column sign_ins.flow_sha256 is
    'SHA-256 of the way to the provider that led here. It leads to one session.';
comment on column sign_ins.sign_in_id is 'The stream of the sign-in in the log.';
comment on column sign_ins.firm_ids is 'The firms that the user may reach; null for all.';
comment on column sign_ins.grants_sha256 is
    'SHA-256 of the settings that granted the role. A session ends when they change.';
-- Housekeeping finds past rows by this index.
create index sign_ins_end_idx on sign_ins (ends_at);

create table users (
    user_id    uuid not null,
    name       text not null,
    sign_in_id uuid not null,
    constraint users_pkey primary key (user_id)
);
comment on table users is
    'The name of each user of the provider who signed in, as of the last sign-in.';
comment on column users.sign_in_id is 'The stream of the last sign-in in the log.';
