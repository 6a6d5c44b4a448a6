-- Tokens of the internal API.
-- Only the projector crate writes this table. No events stand for its rows.

create table tokens (
    token_id   uuid        not null,
    name       text        not null,
    role       text        not null,
    sha256     bytea       not null,
    created_at timestamptz not null,
    revoked_at timestamptz,
    constraint tokens_pkey primary key (token_id),
    constraint tokens_sha256_key unique (sha256),
    constraint tokens_role_check check (role in ('product', 'operator', 'auditor'))
);
comment on table tokens is 'Bearer tokens of the internal API.';
comment on column tokens.name is 'The label that the operator gave the token.';
comment on column tokens.sha256 is 'SHA-256 of the token. The token itself is kept nowhere.';
