-- Read models written in the transaction that appends: what the very next request must see.
-- Their one writer is the projector crate.
create table firms (
    firm_id         uuid    not null,
    name            text    not null,
    status          text    not null,
    leads_in_full   boolean not null,
    brand           jsonb   not null,
    invites_enabled boolean not null default true,
    constraint firms_pkey primary key (firm_id),
    constraint firms_status_check check (status in ('active', 'suspended', 'closed'))
);
comment on table firms is 'A firm as the product last reported it.';

create table members (
    firm_id   uuid    not null,
    member_id uuid    not null,
    role      text,
    active    boolean not null,
    constraint members_pkey primary key (firm_id, member_id),
    constraint members_role_check check (role in ('owner', 'admin', 'member'))
);
comment on table members is 'Who may make keys: active owners and admins.';

create table forms (
    firm_id       uuid        not null,
    form_id       uuid        not null,
    title         text        not null,
    slug          text        not null,
    url           text        not null,
    status        text        not null,
    hidden_fields jsonb       not null,
    created_at    timestamptz not null,
    deleted       boolean     not null default false,
    constraint forms_pkey primary key (firm_id, form_id),
    constraint forms_status_check check (status in ('draft', 'published'))
);
comment on table forms is 'A form as the product last reported it; deleted ones are kept for deliveries under way.';
create index forms_newest_idx on forms (firm_id, created_at desc, form_id desc) where not deleted;

create table key_auth (
    key_id     uuid        not null,
    firm_id    uuid        not null,
    member_id  uuid        not null,
    name       text        not null,
    prefix     text        not null,
    sha256     bytea       not null,
    created_at timestamptz not null,
    revoked_at timestamptz,
    constraint key_auth_pkey primary key (key_id),
    constraint key_auth_sha256_key unique (sha256),
    constraint key_auth_sha256_check check (octet_length(sha256) = 32)
);
comment on table key_auth is 'Who a key is: read by every call, so that revoking is at once.';
create index key_auth_member_idx on key_auth (firm_id, member_id) where revoked_at is null;

create table hooks (
    hook_id          uuid        not null,
    firm_id          uuid        not null,
    key_id           uuid        not null,
    trigger          text        not null,
    target_url       text        not null,
    form_id          uuid,
    created_at       timestamptz not null,
    created_position bigint      not null,
    removed_at       timestamptz,
    removed_position bigint,
    removal_reason   text,
    sequence         bigint      not null,
    constraint hooks_pkey primary key (hook_id),
    constraint hooks_removed_check check (
        (removed_at is null) = (removed_position is null) and (removed_at is null) = (removal_reason is null))
);
comment on table hooks is 'Subscriptions, removed ones too: their life in the log is from created_position to removed_position.';
comment on column hooks.sequence is 'The last event of its stream, for the next one to follow.';
create index hooks_key_idx on hooks (key_id, created_position desc) where removed_at is null;
-- Ends with the end of its life, so that those removed long ago are not read.
create index hooks_match_idx on hooks
    (firm_id, trigger, (coalesce(removed_position, 9223372036854775807)));

create table quotas (
    firm_id uuid    not null,
    kind    text    not null,
    period  date    not null,
    used    integer not null,
    constraint quotas_pkey primary key (firm_id, kind, period),
    constraint quotas_used_check check (used >= 0)
);
comment on table quotas is 'How many keys and subscriptions a firm has, and invites it sent a day; changed in the append that changes it.';
create index quotas_days_idx on quotas (period) where period > '-infinity';
comment on column quotas.period is 'The UTC day; -infinity for what is counted as long as it is there.';

create table activity_seen (
    firm_id uuid        not null,
    source  text        not null,
    id      text        not null,
    seen_at timestamptz not null,
    constraint activity_seen_pkey primary key (firm_id, source, id)
);
comment on table activity_seen is 'Ids of reports of state; remembered for 30 days.';
create index activity_seen_age_idx on activity_seen (seen_at);

-- Read models that follow the log a moment later.
create table deliveries (
    delivery_id   uuid        not null,
    firm_id       uuid        not null,
    hook_id       uuid,
    occurrence_id uuid,
    run_id        uuid,
    step_id       uuid,
    trigger       text        not null,
    form_id       uuid        not null,
    response_id   uuid        not null,
    state         text        not null,
    cause         text,
    created_at    timestamptz not null,
    next_try_at   timestamptz,
    body_id       uuid,
    body_sha256   text,
    ended_at      timestamptz,
    purged        boolean     not null default false,
    host          text,
    reissue_of    uuid,
    constraint deliveries_pkey primary key (delivery_id),
    constraint deliveries_state_check check (state in ('pending', 'delivered', 'failed', 'cancelled')),
    constraint deliveries_cause_check check ((state = 'cancelled') = (cause is not null)),
    constraint deliveries_kind_check check (
        (hook_id is null) = (occurrence_id is null) and (hook_id is null) <> (run_id is null)
        and (run_id is null) = (step_id is null))
);
comment on table deliveries is 'Where each delivery stands: an occurrence''s to a subscription, or a workflow step''s.';
comment on column deliveries.host is 'Where a workflow step''s goes; a subscription''s goes where its subscription says.';
comment on column deliveries.reissue_of is 'The delivery it was made anew from, by hand.';
comment on column deliveries.purged is 'Whether what it sent was kept long enough, and is gone.';
create index deliveries_ended_idx on deliveries (ended_at)
    where (body_id is not null or run_id is not null) and not purged;
create index deliveries_body_idx on deliveries (body_id) where body_id is not null and not purged;
create index deliveries_hook_idx on deliveries (hook_id, created_at desc, delivery_id desc);
create index deliveries_failed_idx on deliveries (firm_id, created_at desc, delivery_id desc) where state = 'failed';
create index deliveries_cancelled_idx on deliveries (firm_id, created_at desc, delivery_id desc) where state = 'cancelled';
create index deliveries_steps_idx on deliveries (firm_id, created_at desc, delivery_id desc) where run_id is not null;
create index deliveries_firm_idx on deliveries (firm_id, created_at desc, delivery_id desc);

create table attempts (
    delivery_id         uuid        not null,
    number              integer     not null,
    firm_id             uuid        not null,
    started_at          timestamptz not null,
    finished_at         timestamptz not null,
    outcome             text        not null,
    status              integer,
    error               text,
    retry_after_seconds bigint,
    hops                jsonb       not null,
    late                boolean     not null,
    constraint attempts_pkey primary key (delivery_id, number, late)
);
comment on table attempts is 'The history of each delivery, try by try.';
comment on column attempts.late is 'Its answer came after its lease was taken over, or after the delivery''s end.';
