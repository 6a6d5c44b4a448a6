-- One-time links to the portal, and the sessions that begin with them (ruling 48).
-- Only the projector crate writes this table. No events stand for its rows.

create table portal_sessions (
    link_sha256   bytea       not null,
    cookie_sha256 bytea,
    firm_id       uuid        not null,
    member_id     uuid        not null,
    lang          text,
    frame_origin  text,
    ends_at       timestamptz not null,
    constraint portal_sessions_pkey primary key (link_sha256),
    constraint portal_sessions_cookie_key unique (cookie_sha256),
    constraint portal_sessions_link_check check (octet_length(link_sha256) = 32),
    constraint portal_sessions_cookie_check check (octet_length(cookie_sha256) = 32)
);
comment on table portal_sessions is
    'A link to the portal; once it was used, the session that began with it.';
comment on column portal_sessions.link_sha256 is 'SHA-256 of the code. The code is kept nowhere.';
comment on column portal_sessions.cookie_sha256 is
    'SHA-256 of the cookie. Null until the link is used.';
comment on column portal_sessions.lang is 'The chosen language; null for that of the browser.';
comment on column portal_sessions.frame_origin is 'The one origin that may show the portal in a frame.';
comment on column portal_sessions.ends_at is 'End of the link; once it was used, of the session.';
-- Housekeeping finds past rows by this index.
create index portal_sessions_end_idx on portal_sessions (ends_at);

-- The portal shows all steps of a run.
create index deliveries_run_idx on deliveries (run_id) where run_id is not null;
