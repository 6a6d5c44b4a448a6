-- Requests of replays. A repeated request must find its replay, whose id is random.
create table replay_requests (
    firm_id    uuid not null,
    request_id uuid not null,
    replay_id  uuid not null,
    constraint replay_requests_pkey primary key (firm_id, request_id)
);
comment on table replay_requests is
    'The replay that began for each request of an operator. A repeat begins no second one.';
comment on column replay_requests.request_id is 'The id that the operator chose for the request.';
