-- Firms with their members and forms, as the product last reported them.
-- Only the projector crate writes these tables, in the transaction that appends.

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
comment on column firms.leads_in_full is 'Whether the plan of the firm includes Leads in full.';
comment on column firms.brand is 'The colour and logo of the mails that the firm sends.';
comment on column firms.invites_enabled is 'Whether the firm may send form invites.';

create table members (
    firm_id   uuid    not null,
    member_id uuid    not null,
    role      text,
    active    boolean not null,
    constraint members_pkey primary key (firm_id, member_id),
    constraint members_role_check check (role in ('owner', 'admin', 'member'))
);
comment on table members is 'The members of each firm. Active owners and admins may make keys.';
comment on column members.role is
    'Null for a member that has left, and for one whose role was never reported.';

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
comment on table forms is
    'A form as the product last reported it. Deleted forms stay for the deliveries under way.';
comment on column forms.hidden_fields is 'The hidden fields that the link of the form accepts.';
create index forms_newest_idx on forms (firm_id, created_at desc, form_id desc) where not deleted;
