-- Sessions of users of the provider end 30 minutes after their last use, and acts that cut off ask
-- for a fresh proof (ruling 62). Builds before this one neither read nor write these columns.

alter table sign_ins
    add column last_used_at timestamptz,
    add column proven_at    timestamptz;
comment on column sign_ins.last_used_at is
    'The last use. Null for a session of a build before: it counts from its sign-in.';
comment on column sign_ins.proven_at is
    'When the person proved to the provider who it is; null if the provider did not tell.';
