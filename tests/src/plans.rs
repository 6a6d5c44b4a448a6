//! The plans that PostgreSQL chose and wrote down (`auto_explain`), and a judge of them. The judge
//! finds plans that read a growing table from end to end.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;

use serde_json::Value;
use sqlx::{Executor, PgPool};

/// How many rows each table has.
pub type Sizes = BTreeMap<String, f64>;

/// Tables that may be read whole, and why that is no matter.
const TINY: [(&str, &str); 22] = [
    ("checkpoints", "one row per follower"),
    ("rebuilds", "one row per read model"),
    ("last_signature", "one row"),
    ("lost_tails", "one row per loss of the log's end"),
    ("last_verification", "one row"),
    ("last_backup", "one row"),
    ("history_drops", "one row per month of history that has left"),
    ("lane_wakes", "a sender takes them as they come"),
    ("unspread", "what bursts leave for a moment"),
    ("pauses", "what operators hold now: mostly nothing"),
    ("identity_check", "one row"),
    ("identity_key", "one row"),
    ("installation", "one row"),
    ("cell", "one row"),
    ("erased_up_to", "one row"),
    ("wrapping_check", "one row"),
    ("wrong_keys", "as many as there are counters: 4,096 at most"),
    ("tokens", "made by hand at the terminal"),
    ("sign_ins", "sessions of eight hours"),
    ("users", "operators and auditors of one company"),
    ("table_sizes", "one row per table and day, of 100 days"),
    ("_sqlx_migrations", "one row per migration"),
];

/// Indexes whose readers may leave out many rows, and why that is no matter.
const READ_THROUGH: [(&str, &str); 3] = [
    ("events_position_key", "a follower reads the log once, and says what of it it does not need"),
    (
        "deliveries_firm_idx",
        "the deliveries about a person are found in the history of one firm: an index more for each
         delivery would cost more",
    ),
    (
        "deliveries_ended_later_idx",
        "an export of a time reads the firm's pending and slow deliveries from before that time",
    ),
];

/// Rows that a look may leave out for each that it answers with.
const LEFT_OUT_PER_ROW: f64 = 10.0;

/// Rows that any look may leave out.
const LEFT_OUT: f64 = 100.0;

/// Blocks that any look may touch, beside the blocks of each way down an index and of each row.
const BLOCKS: f64 = 50.0;
const BLOCKS_PER_LOOK: f64 = 10.0;
const BLOCKS_PER_ROW: f64 = 6.0;

/// So many looks a list is taken for.
const LOOKS_OF_A_LIST: usize = 100;

/// Has the plans of all statements written down of connections that are opened from now on.
pub async fn write_down(pool: &PgPool) {
    let settings = [
        ("session_preload_libraries", "auto_explain"),
        ("auto_explain.log_min_duration", "0"),
        ("auto_explain.log_format", "json"),
        ("auto_explain.log_nested_statements", "on"),
        ("auto_explain.log_analyze", "on"),
        ("auto_explain.log_buffers", "on"),
        ("auto_explain.log_timing", "off"),
    ];
    for (name, value) in settings {
        let set = format!(
            "do $$ begin execute format('alter database %I set {name} = {value}', current_database());
             end $$"
        );
        pool.execute(set.as_str()).await.unwrap();
    }
}

/// A plan that was carried out.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The statement.
    pub statement: String,
    root: Value,
}

impl Plan {
    /// The blocks that the statement touched.
    #[must_use]
    pub fn blocks(&self) -> f64 {
        blocks(&self.root)
    }
}

/// The plans of a server's log, from this byte on.
#[must_use]
pub fn read(log: &Path, from: u64) -> Vec<Plan> {
    let bytes = std::fs::read(log).unwrap();
    let text = String::from_utf8_lossy(&bytes[usize::try_from(from).unwrap()..]).into_owned();
    let mut plans = Vec::new();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        if !line.ends_with(" plan:") {
            continue;
        }
        let mut json = String::new();
        while let Some(more) = lines.next_if(|line| line.starts_with('\t')) {
            json.push_str(more);
        }
        let mut plan: Value = serde_json::from_str(&json.replace('\t', " ")).unwrap();
        let statement = plan["Query Text"].as_str().unwrap_or_default();
        let statement = statement.split_whitespace().collect::<Vec<_>>().join(" ");
        plans.push(Plan { statement, root: plan["Plan"].take() });
    }
    plans
}

/// How many rows each table has, with its ranges.
pub async fn sizes(pool: &PgPool) -> Sizes {
    let sizes: Vec<(String, f64)> = sqlx::query_as(
        "select coalesce(pg_partition_root(oid)::text, relname), sum(reltuples)::float8 from pg_class
          where relkind = 'r'
            and relnamespace in ('public'::regnamespace, to_regnamespace('ranges'))
          group by 1",
    )
    .fetch_all(pool)
    .await
    .unwrap();
    sizes.into_iter().collect()
}

/// Whether a table may be read whole.
#[must_use]
pub fn is_tiny(table: &str) -> bool {
    TINY.iter().any(|(tiny, _)| *tiny == table)
}

/// The faults of these plans. Each fault is told once, however often its plan was carried out.
#[must_use]
pub fn wrong(plans: &[Plan], sizes: &Sizes) -> BTreeSet<String> {
    let mut wrong = BTreeSet::new();
    for plan in plans {
        walk(&plan.root, &mut |node| {
            if let Some(why) = judge(node, sizes) {
                let mut told = format!("{why}\n  {}\n", plan.statement);
                outline(&plan.root, 1, &mut told);
                wrong.insert(told);
            }
        });
    }
    wrong
}

fn walk(node: &Value, look: &mut impl FnMut(&Value)) {
    look(node);
    for below in node["Plans"].as_array().into_iter().flatten() {
        walk(below, look);
    }
}

/// Why this part of a plan is refused, if it is.
fn judge(node: &Value, sizes: &Sizes) -> Option<String> {
    let part = node["Relation Name"].as_str()?;
    let table = &*part.replace(month_of(part), "");
    let size = *sizes.get(table)?;
    let kind = node["Node Type"].as_str().filter(|kind| kind.ends_with("Scan"))?;
    if is_tiny(table) {
        return None;
    }
    if kind == "Seq Scan" {
        return Some(format!("{table} is read from end to end"));
    }
    let number = |name: &str| node[name].as_f64().unwrap_or_default();
    let (rows, left_out) = (number("Actual Rows"), number("Rows Removed by Filter"));
    if node["Index Cond"].is_null() && rows + left_out > (size / 2.0).max(LEFT_OUT) {
        return Some(format!("{table} is read from end to end, by an index"));
    }
    let name = node["Index Name"].as_str().unwrap_or_default().replace(month_of(part), "");
    let meant = READ_THROUGH.iter().any(|(index, _)| name == *index);
    if left_out > LEFT_OUT.max(LEFT_OUT_PER_ROW * rows) && !meant {
        return Some(format!("{table}: {left_out} rows are read for nothing, for {rows}"));
    }
    let blocks = own_blocks(node);
    (blocks > allowed_blocks(node, rows + left_out))
        .then(|| format!("{table}: {blocks} blocks are looked through for {rows} rows"))
}

/// The month in the name of a range and of its indexes: `_2026_11`.
fn month_of(part: &str) -> &str {
    part.find("_2").map_or("", |begin| &part[begin..])
}

/// The blocks that a part of a plan touched itself. PostgreSQL adds the blocks of the parts below
/// it.
fn own_blocks(node: &Value) -> f64 {
    let below = node["Plans"].as_array().into_iter().flatten();
    blocks(node) - below.map(blocks).sum::<f64>()
}

/// The blocks that a part of a plan touched, with the parts below it.
fn blocks(node: &Value) -> f64 {
    ["Shared Hit Blocks", "Shared Read Blocks"]
        .map(|name| node[name].as_f64().unwrap_or_default())
        .iter()
        .sum()
}

/// The blocks that so many rows may cost each time, with each look down an index. More blocks mean
/// an index that does not begin with the columns of the condition.
fn allowed_blocks(node: &Value, rows: f64) -> f64 {
    let condition = node["Index Cond"].as_str().unwrap_or_default();
    // A plan that is kept does not say how many are asked for.
    let looks =
        if condition.contains("ANY ($") { LOOKS_OF_A_LIST } else { condition.matches(',').count() };
    let looks = 1.0 + f64::from(u32::try_from(looks).unwrap_or(u32::MAX));
    let loops = node["Actual Loops"].as_f64().unwrap_or_default();
    BLOCKS + loops * (BLOCKS_PER_LOOK * looks + BLOCKS_PER_ROW * rows)
}

/// A plan in a few words, line by line.
fn outline(node: &Value, depth: usize, told: &mut String) {
    let text = |name: &str| node[name].as_str().unwrap_or_default().to_owned();
    let places = [text("Relation Name"), text("Index Name")].join(" ");
    let conditions = ["Index Cond", "Filter"].map(text).join(" | ");
    writeln!(told, "  {}{} {places} {conditions}", "  ".repeat(depth), text("Node Type")).unwrap();
    for below in node["Plans"].as_array().into_iter().flatten() {
        outline(below, depth + 1, told);
    }
}
