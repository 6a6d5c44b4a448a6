-- Subscriptions, which the API calls hooks.
-- Only the projector crate writes this table, in the transaction that appends.

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
        (removed_at is null) = (removed_position is null)
        and (removed_at is null) = (removal_reason is null))
);
comment on table hooks is
    'All subscriptions, also removed ones. A subscription receives the occurrences between its '
    'created_position and its removed_position.';
comment on column hooks.key_id is 'The key that made the subscription.';
comment on column hooks.form_id is
    'The subscription receives only occurrences of this form. Null stands for all forms.';
comment on column hooks.created_position is 'Position of the creating event in the log.';
comment on column hooks.removed_position is 'Position of the removing event in the log.';
comment on column hooks.sequence is
    'Sequence of the last event of the stream. The next event takes the number after it.';
create index hooks_key_idx on hooks (key_id, created_position desc) where removed_at is null;
-- The match of an occurrence reads live subscriptions only; a replay reads all of a firm.
create index hooks_match_idx on hooks (firm_id, trigger, removed_at);

create function hooks_of_key(shown uuid, of_firm uuid)
returns table (hook_id uuid, trigger text, target_url text, form_id uuid, created_at timestamptz,
               created_position bigint)
language plpgsql strict rows 10 as $$
#variable_conflict use_column
declare
    guard constant text := set_config('firmforms.firm', of_firm::text, true);
begin
    return query
    select hook_id, trigger, target_url, form_id, created_at, created_position from hooks
     where key_id = shown and removed_at is null;
end $$;
comment on function hooks_of_key(uuid, uuid) is
    'The live subscriptions of a key that the caller has shown. The guard of the key''s firm holds '
    'until the calling transaction ends. A null key or firm gives no rows.';
