//! Who may do what with which table: all of it, in one place. A table that is not here is refused by
//! `migrate --roles`, so that nobody forgets to decide about a new one.

/// The groups that are granted something, by the ends of their names.
pub(super) const GROUPS: [&str; 4] = ["api", "projector", "deliverer", "auditor"];

/// A table, and what each of the [`GROUPS`] may do with it.
pub(super) type TableGrants = (&'static str, [&'static str; 4]);

const NO: &str = "";
const READ: &str = "select";
const ADD: &str = "select, insert";
const CHANGE: &str = "select, update";
const DROP: &str = "select, delete";
const TAKE: &str = "select, update, delete";
const WRITE: &str = "select, insert, update";
const ROTATE: &str = "select, insert, delete";
const ALL: &str = "select, insert, update, delete";

/// Of the main database. To lock a row takes the right to update it: that is why `api` may update some
/// tables of which it only locks rows. Whoever serves reads what its figures count.
pub(super) const MAIN_GRANTS: &[TableGrants] = &[
    // The log and its proof: nobody changes what is there.
    ("events", [ADD, ADD, ADD, READ]),
    ("audit_log", [READ, ADD, NO, READ]),
    ("audit_heads", [READ, WRITE, NO, READ]),
    ("seals", [READ, ADD, NO, READ]),
    ("checkpoints", [READ, WRITE, WRITE, READ]),
    // Changed in the append, by whoever appends what changes it.
    ("firms", [WRITE, READ, READ, READ]),
    ("members", [WRITE, NO, NO, NO]),
    ("forms", [WRITE, NO, READ, READ]),
    ("key_auth", [WRITE, NO, NO, NO]),
    ("hooks", [WRITE, READ, CHANGE, READ]),
    ("quotas", [WRITE, TAKE, CHANGE, NO]),
    ("people", [WRITE, NO, NO, NO]),
    ("open_invites", [ALL, READ, READ, NO]),
    ("replays", [WRITE, READ, CHANGE, READ]),
    ("pauses", [ALL, READ, DROP, READ]),
    ("rebuilds", [READ, READ, NO, READ]),
    ("replay_items", [WRITE, NO, CHANGE, READ]),
    // History.
    ("deliveries", [READ, WRITE, "select, update (purged)", READ]),
    // Work.
    ("lanes", [WRITE, READ, CHANGE, READ]),
    ("outbox", [ADD, ADD, ALL, READ]),
    ("lane_wakes", [ADD, ADD, ALL, READ]),
    ("unspread", [ADD, ADD, ALL, READ]),
    ("partials", [ALL, TAKE, DROP, NO]),
    ("subjects", [WRITE, NO, READ, NO]),
    ("waiting_facts", [ROTATE, NO, DROP, NO]),
    ("activity_seen", [ADD, TAKE, NO, NO]),
    // Doors.
    ("tokens", [READ, NO, NO, NO]),
    ("key_calls", [WRITE, NO, NO, NO]),
    ("wrong_keys", [WRITE, NO, NO, NO]),
    // The vault: never the auditor's, and nothing of it the projector's.
    ("responses", [WRITE, NO, "select, delete, update (submitted_at)", NO]),
    ("response_people", [ADD, NO, DROP, NO]),
    ("reports", [ALL, NO, DROP, NO]),
    ("bookings", [ALL, NO, DROP, NO]),
    ("bodies", [ADD, NO, ALL, NO]),
    ("answers", [READ, NO, ALL, NO]),
    ("step_headers", [ADD, NO, DROP, NO]),
    ("mails", [ROTATE, NO, NO, NO]),
    ("webhook_secrets", [WRITE, NO, READ, NO]),
    ("firm_contacts", [ALL, NO, NO, NO]),
    ("identity_check", [ADD, ADD, ADD, NO]),
    // What was migrated: a process looks whether the schema is its own.
    ("_sqlx_migrations", [READ, READ, READ, READ]),
];

/// What operators' commands may do beside: tokens are made at the terminal, and by no door.
pub(super) const SERVICE_GRANTS: &[(&str, &str)] = &[("tokens", "insert, update")];

/// Our functions. One that runs with its owner's rights is for doors alone, which ask who a key is.
pub(super) const KNOWN_FUNCTIONS: [&str; 6] = [
    "audit_refuse_change()",
    "authenticate_keys(bytea[], timestamp with time zone, integer, double precision)",
    "events_draw_xid()",
    "events_refuse_change()",
    "has_left_window(timestamp with time zone, timestamp with time zone, double precision)",
    "hooks_of_key(uuid, uuid)",
];

/// Of the keyring. Whoever comes first writes down what the keys are checked by.
pub(super) const KEYRING_GRANTS: &[TableGrants] = &[
    ("data_keys", [ALL, NO, DROP, NO]),
    ("identity_key", [ADD, ADD, ADD, NO]),
    ("wrapping_check", [ADD, ADD, ADD, NO]),
    ("_sqlx_migrations", [READ, READ, READ, NO]),
];
