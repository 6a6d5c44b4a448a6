//! Attempts, as the log has them.

/// A row for each attempt, with its delivery and its fields in the log. For a `from`.
pub const ATTEMPTS: &str = "(
    select aggregate_id::uuid as delivery_id, told.*
      from events, json_to_record(payload->'DeliveryAttempted')
           as told(number int, started_at timestamptz, finished_at timestamptz, outcome text,
                   status int, error text, hops json, late text)
     where event_type = 'DeliveryAttempted') attempts";
