//! The rights of each database group on each table, all in one place. `migrate --roles` refuses a
//! table that is missing here, so every new table needs a decision.

/// The ends of the groups' names.
pub(super) const GROUPS: [&str; 4] = ["api", "projector", "deliverer", "auditor"];

/// A table, and the rights of each of the [`GROUPS`] on it.
pub(super) type TableGrants = (&'static str, [&'static str; 4]);

const NO: &str = "";
const READ: &str = "select";
const ADD: &str = "select, insert";
/// Only the database chooses a position. Without the right to insert it, no group can use
/// `overriding system value`, and so none can put an event into a hole of a sealed block.
const APPEND: &str = "select, insert (aggregate_type, aggregate_id, sequence, event_type, \
                      event_version, payload, metadata, firm_id, recorded_at, digest)";
/// An auditor compares keys with the log, which has their hashes too.
const COMPARE_KEYS: &str = "select (key_id, firm_id, member_id, sha256, created_at, revoked_at)";
/// An auditor compares sessions with the log. The log knows a session of the portal by the hash of
/// its cookie, which is no secret.
const COMPARE_SIGN_INS: &str = "select (sign_in_id, user_id, role, firm_ids, ends_at)";
const COMPARE_PORTAL: &str = "select (cookie_sha256, firm_id, member_id, ends_at)";
const CHANGE: &str = "select, update";
const DROP: &str = "select, delete";
const TAKE: &str = "select, update, delete";
const WRITE: &str = "select, insert, update";
const ROTATE: &str = "select, insert, delete";
const ALL: &str = "select, insert, update, delete";

/// Grants of the main database. A row lock needs the right to update, so `api` may update some
/// tables of which it only locks rows. Serving groups read the tables that metrics count.
pub(super) const MAIN_GRANTS: &[TableGrants] = &[
    // The log and its proof. No group changes an entry.
    ("events", [APPEND, APPEND, APPEND, READ]),
    ("places", [ADD, ADD, ADD, READ]),
    ("audit_log", [READ, ADD, NO, READ]),
    ("audit_heads", [READ, WRITE, NO, READ]),
    ("seals", [READ, ADD, NO, READ]),
    ("last_signature", [READ, WRITE, READ, READ]),
    ("last_verification", [READ, WRITE, READ, READ]),
    ("last_backup", [WRITE, READ, READ, READ]),
    ("checkpoints", [READ, WRITE, WRITE, READ]),
    // Read models, written in the append that changes them.
    ("firms", [WRITE, READ, "select, update (dropped_at)", READ]),
    ("members", [WRITE, NO, NO, NO]),
    ("forms", [WRITE, NO, READ, READ]),
    ("key_auth", [WRITE, NO, NO, COMPARE_KEYS]),
    ("hooks", [WRITE, READ, CHANGE, READ]),
    ("quotas", [WRITE, TAKE, CHANGE, NO]),
    ("people", [WRITE, NO, NO, NO]),
    ("open_invites", [ALL, READ, READ, NO]),
    ("notices", [ALL, ADD, DROP, READ]),
    ("hook_episodes", [NO, ALL, NO, NO]),
    ("replays", [WRITE, READ, CHANGE, READ]),
    ("pauses", [ALL, READ, DROP, READ]),
    ("rebuilds", [READ, READ, NO, READ]),
    ("replay_items", [WRITE, DROP, CHANGE, READ]),
    ("replay_requests", [ADD, NO, NO, READ]),
    // History.
    // 0.2.0 marks purged deliveries.
    ("deliveries", [READ, WRITE, "select, update (purged)", READ]),
    ("history_drops", [READ, READ, READ, READ]),
    // Work queues.
    ("lanes", [WRITE, READ, CHANGE, READ]),
    ("outbox", [ADD, ADD, ALL, READ]),
    ("lane_wakes", [ADD, ADD, ALL, READ]),
    ("unspread", [ADD, ADD, ALL, READ]),
    ("partials", [ALL, TAKE, DROP, NO]),
    ("subjects", [WRITE, NO, "select, delete, update (erased, expired_as)", NO]),
    ("waiting_facts", [ROTATE, DROP, DROP, NO]),
    ("activity_seen", [ADD, TAKE, NO, NO]),
    ("hook_requests", [ALL, TAKE, NO, NO]),
    // Alarms of every process.
    ("lost_tails", [WRITE, WRITE, WRITE, READ]),
    // Tables of the doors.
    ("tokens", ["select, update (last_used_at)", NO, NO, NO]),
    ("portal_sessions", [ALL, TAKE, NO, COMPARE_PORTAL]),
    ("sign_ins", [ALL, TAKE, NO, COMPARE_SIGN_INS]),
    ("users", [WRITE, NO, NO, READ]),
    ("key_calls", [WRITE, NO, NO, NO]),
    ("wrong_keys", [WRITE, NO, NO, NO]),
    ("invite_tries", [WRITE, TAKE, NO, NO]),
    ("receivers", [READ, WRITE, READ, READ]),
    ("receiver_hours", [READ, ALL, NO, READ]),
    ("table_sizes", [READ, ALL, NO, READ]),
    // The vault. The auditor reads none of it, and the projector no secret of it.
    ("responses", [ALL, NO, "select, delete, update (submitted_at)", NO]),
    ("response_people", [ROTATE, NO, DROP, NO]),
    ("reports", [ALL, NO, DROP, NO]),
    ("bookings", [ALL, NO, DROP, NO]),
    ("bodies", [ADD, NO, ALL, NO]),
    ("answers", [READ, NO, ALL, NO]),
    ("step_headers", [ADD, NO, DROP, NO]),
    ("mails", [ROTATE, NO, DROP, NO]),
    ("webhook_secrets", [WRITE, NO, DROP, NO]),
    ("firm_contacts", [ALL, NO, DROP, NO]),
    ("identity_check", [ADD, ADD, ADD, NO]),
    ("installation", [ADD, ADD, ADD, READ]),
    ("cell", [ADD, ADD, ADD, NO]),
    // The list of migrations. A process checks it against its own schema.
    ("_sqlx_migrations", [READ, READ, READ, READ]),
];

/// Further rights of operators' commands. A token is made at the terminal, and by no door.
pub(super) const SERVICE_GRANTS: &[(&str, &str)] = &[("tokens", "insert, update")];

/// Our functions. Those with their owner's rights are for the doors alone, which ask them for a
/// key's owner, but for those that [`MAKE_RANGES`].
pub(super) const KNOWN_FUNCTIONS: [&str; 17] = [
    "admit_keys(bytea[], timestamp with time zone, integer, double precision)",
    "audit_refuse_change()",
    "authenticate_keys(bytea[], timestamp with time zone, integer, double precision)",
    "confirm_append(bigint, boolean)",
    "events_draw_xid()",
    "events_refuse_change()",
    "finish_log_range(regclass)",
    "has_left_window(timestamp with time zone, timestamp with time zone, double precision)",
    "hooks_of_key(uuid, uuid)",
    MAKE_RANGES[0],
    MAKE_RANGES[1],
    MAKE_RANGES[2],
    MAKE_RANGES[3],
    MAKE_RANGES[4],
    MAKE_RANGES[5],
    "refuse_taken()",
    "take_place()",
];

/// The functions that make and drop ranges of the log and of history, for the projector alone.
pub(super) const MAKE_RANGES: [&str; 6] = [
    "drop_history_range(timestamp with time zone)",
    "drop_log_range(bigint)",
    "keep_log_whole()",
    "lay_out_log()",
    "make_history_range(regclass, timestamp with time zone)",
    "make_log_range(bigint)",
];

/// Grants of the keyring. The first process writes the check value of the keys.
pub(super) const KEYRING_GRANTS: &[TableGrants] = &[
    ("data_keys", [ALL, NO, DROP, NO]),
    ("identity_key", [ADD, ADD, ADD, NO]),
    ("wrapping_check", [ADD, ADD, ADD, NO]),
    ("installation", [ADD, ADD, ADD, NO]),
    ("erased_up_to", [NO, NO, WRITE, NO]),
    ("_sqlx_migrations", [READ, READ, READ, NO]),
];
