-- An append in one statement: what it was decided from is checked in the statement itself.

-- Called once in the statement, after its events were inserted. A function has a newer snapshot than
-- its statement, so it sees a cursor that moved while the statement waited.
create function confirm_append(first_position bigint, is_fresh boolean) returns boolean
language plpgsql volatile set search_path = public, pg_temp as $$
begin
    if is_fresh is not true then
        raise exception 'what the append was decided from has changed' using errcode = 'FF001';
    end if;
    if exists (select from checkpoints where position >= first_position) then
        raise exception 'a follower has passed the append' using errcode = 'FF001';
    end if;
    return true;
end $$;
comment on function confirm_append(bigint, boolean) is
    'Refuses an append in one statement with FF001, if its conditions do not hold or a cursor has '
    'passed its first position.';
