create index response_people_further_idx on response_people (firm_id, response_id) where further;
