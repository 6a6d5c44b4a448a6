-- Rebuilds of read models from the log.
-- Only the projector crate writes this table, with the swap of a rebuild.

create table rebuilds (
    model      text        not null,
    rebuilt_at timestamptz not null,
    position   bigint      not null,
    digest     text        not null,
    constraint rebuilds_pkey primary key (model)
);
comment on table rebuilds is 'The last rebuild of each read model from the log.';
comment on column rebuilds.model is 'Name of the read model.';
comment on column rebuilds.position is 'The rebuild compared the rows up to this position.';
comment on column rebuilds.digest is 'Digest over the rebuilt rows.';
