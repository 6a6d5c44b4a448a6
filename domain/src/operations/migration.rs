//! The steps of a migration, read from its SQL: the tables that each step locks, and for how long.
//! It reads the SQL of this project, not any SQL.

/// Bytes of a table that a step reads or writes in one second, for an estimate. A slow disk does
/// half of it.
const BYTES_PER_SECOND: u64 = 50_000_000;

/// The effect of a step on the users of its table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepEffect {
    /// The table is new, so nobody waits.
    NewTable,
    /// The whole table is read, and nobody waits.
    Read,
    /// An index is made. Writers wait until the whole table is read.
    Index,
    /// The whole table is read or written, and everybody waits.
    WholeTable,
    /// Rows are changed. Writers of these rows wait.
    Rows,
    /// Everybody waits for a moment.
    Brief,
}

/// One step of a migration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MigrationStep {
    /// The table.
    pub table: String,
    /// The effect.
    pub effect: StepEffect,
}

impl StepEffect {
    /// The lock, as an operator thinks of it.
    #[must_use]
    pub const fn lock(self) -> &'static str {
        match self {
            Self::NewTable => "none",
            Self::Read => "nobody waits",
            Self::Index => "writers wait",
            Self::WholeTable => "readers and writers wait",
            Self::Rows => "writers of the same rows wait",
            Self::Brief => "all wait for a moment",
        }
    }

    /// An estimate of the seconds for a table of this size.
    #[must_use]
    pub const fn estimated_seconds(self, bytes: u64) -> u64 {
        match self {
            Self::NewTable | Self::Brief => 0,
            Self::Read | Self::Index | Self::WholeTable | Self::Rows => {
                bytes.div_ceil(BYTES_PER_SECOND)
            }
        }
    }
}

/// The steps of a migration, in order. Several brief steps on one table are one.
#[must_use]
pub fn migration_steps(sql: &str) -> Vec<MigrationStep> {
    let mut steps: Vec<MigrationStep> = Vec::new();
    for statement in split_statements(sql) {
        let Some(mut step) = statement_step(&statement) else { continue };
        let is_new =
            |one: &MigrationStep| one.table == step.table && one.effect == StepEffect::NewTable;
        if steps.iter().any(is_new) {
            step.effect = StepEffect::NewTable;
        }
        if !steps.contains(&step) {
            steps.push(step);
        }
    }
    steps
}

/// The step of one statement. Comments, functions and the like touch no table.
fn statement_step(statement: &str) -> Option<MigrationStep> {
    let first = statement.strip_prefix("begin ").unwrap_or(statement);
    let words: Vec<&str> = first.split([' ', '(']).filter(|word| !word.is_empty()).collect();
    let after = |word: &str| {
        let place = words.iter().position(|one| *one == word)?;
        let name =
            words[place + 1..].iter().find(|one| !["if", "not", "exists", "only"].contains(one));
        name.map(|name| name.trim_start_matches("public.").trim_matches('"').to_owned())
    };
    let (table, effect) = match *words.as_slice() {
        ["create", "table", ..] => (after("table")?, StepEffect::NewTable),
        ["create", "index", "concurrently", ..] => (after("on")?, StepEffect::Read),
        ["create", "index" | "unique", ..] => (after("on")?, StepEffect::Index),
        ["create" | "drop", "trigger", ..] => (after("on")?, StepEffect::Brief),
        ["alter", "table", ..] => (after("table")?, of_alteration(statement)),
        ["drop" | "lock", "table", ..] => (after("table")?, StepEffect::Brief),
        ["update", ..] => (after("update")?, StepEffect::Rows),
        ["insert", "into", ..] => (after("into")?, StepEffect::Rows),
        ["delete", "from", ..] => (after("from")?, StepEffect::Rows),
        _ => return None,
    };
    Some(MigrationStep { table, effect })
}

fn of_alteration(statement: &str) -> StepEffect {
    let is_whole = [" stored", " type ", "set not null", "gen_random_uuid", "clock_timestamp"];
    let checks = statement.contains(" add constraint ") && !statement.contains(" not valid");
    if checks || is_whole.iter().any(|part| statement.contains(part)) {
        return StepEffect::WholeTable;
    }
    if statement.contains(" validate constraint ") {
        return StepEffect::Read;
    }
    StepEffect::Brief
}

/// The statements of a text: in small letters, on one line each, without comments.
fn split_statements(sql: &str) -> Vec<String> {
    let plain: String = sql
        .lines()
        .map(|line| line.split_once("--").map_or(line, |(code, _)| code).to_lowercase() + " ")
        .collect();
    let mut statements = vec![String::new()];
    let mut is_text = false;
    // The body of a function is one text, whatever is in it. A `do` block runs at once.
    for (number, part) in plain.split("$$").enumerate() {
        let is_block = statements.last().is_some_and(|last| last.trim() == "do");
        let is_body = number % 2 == 1 && !is_block;
        if is_block {
            statements.push(String::new());
        }
        for letter in part.chars().filter(|_| !is_body) {
            is_text ^= letter == '\'';
            match letter {
                ';' if !is_text => statements.push(String::new()),
                letter => statements.last_mut().into_iter().for_each(|last| last.push(letter)),
            }
        }
    }
    statements
        .iter()
        .map(|one| one.split_whitespace().collect::<Vec<_>>().join(" "))
        .filter(|one| !one.is_empty())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(sql: &str) -> Vec<(String, StepEffect)> {
        migration_steps(sql).into_iter().map(|step| (step.table, step.effect)).collect()
    }

    #[test]
    fn each_statement_has_its_lock() {
        for (sql, table, effect) in [
            ("create table a (id int);", "a", StepEffect::NewTable),
            ("create index a_idx on a (id);", "a", StepEffect::Index),
            ("CREATE UNIQUE INDEX a_idx\n on a(id)", "a", StepEffect::Index),
            ("create index concurrently a_idx on a (id)", "a", StepEffect::Read),
            ("alter table a add column b text;", "a", StepEffect::Brief),
            ("alter table only public.a set (fillfactor = 50)", "a", StepEffect::Brief),
            (
                "alter table a add column b text generated always as (lower(c)) stored",
                "a",
                StepEffect::WholeTable,
            ),
            ("alter table a alter b type bigint", "a", StepEffect::WholeTable),
            ("alter table a add constraint c check (b > 0)", "a", StepEffect::WholeTable),
            ("alter table a add constraint c check (b > 0) not valid", "a", StepEffect::Brief),
            ("update a set b = 1", "a", StepEffect::Rows),
            ("drop table if exists a", "a", StepEffect::Brief),
            ("alter table a validate constraint c", "a", StepEffect::Read),
            ("do $$ declare b int; begin lock table a; perform 1; end $$;", "a", StepEffect::Brief),
            ("create trigger t before update on a for each row", "a", StepEffect::Brief),
        ] {
            assert_eq!(told(sql), [(table.to_owned(), effect)], "{sql}");
        }
    }

    /// Blocks were once read over, so an upgrade that locks history looked like none.
    #[test]
    fn the_ranges_of_history_are_planned() {
        let steps = [
            include_str!("../../../migrations/main/0050_history_border.sql"),
            include_str!("../../../migrations/main/0051_history_border_checked.sql"),
            include_str!("../../../migrations/main/0052_history_ranges.sql"),
        ]
        .map(|sql| told(sql).first().cloned());
        let effects = [StepEffect::Brief, StepEffect::Read, StepEffect::Brief];
        assert_eq!(steps, effects.map(|effect| Some(("deliveries".to_owned(), effect))));
    }

    #[test]
    fn a_new_table_is_locked_for_nobody() {
        let sql = "create table a (id int); -- an index; of a\ncreate index i on a (id);\n\
                   comment on table a is 'one; two';\n\
                   create function f() returns void language sql as $$ update b set c = 1; $$;\n\
                   alter table b add column d int; alter table b add column e int;";
        let steps = told(sql);
        assert_eq!(
            steps,
            [("a".to_owned(), StepEffect::NewTable), ("b".to_owned(), StepEffect::Brief)]
        );
    }

    #[test]
    fn an_estimate_grows_with_the_table() {
        assert_eq!(StepEffect::Index.estimated_seconds(0), 0);
        assert_eq!(StepEffect::Index.estimated_seconds(1), 1);
        assert_eq!(StepEffect::WholeTable.estimated_seconds(5_000_000_000), 100);
        assert_eq!(StepEffect::Brief.estimated_seconds(5_000_000_000), 0);
    }
}
