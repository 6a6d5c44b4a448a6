-- Tokens of the internal door. Their one writer is the projector crate.
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
comment on table tokens is 'Bearer tokens of the internal door, by their SHA-256.';
