//! Joined writes: inserts of one transaction that are sent together, as one statement. To send a
//! statement and to wait for its answer costs the service and the server more than most inserts.
//!
//! Writes with conditions can be a transaction by themselves ([`crate::Store::append_at_once`]).

use std::fmt::Write;

use sqlx::error::BoxDynError;
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::{Arguments, Encode, PgConnection, Postgres, Type};

/// Writes whose results nobody reads. Each owner of a table adds its own.
#[derive(Default)]
pub struct JoinedWrites {
    /// Common table expressions, with the numbers of their parameters.
    expressions: String,
    /// The conditions of the writes, as one SQL condition.
    conditions: String,
    /// Whether the last write has a single row.
    has_one_row: bool,
    arguments: PgArguments,
    /// The first value that could not be encoded.
    error: Option<BoxDynError>,
}

impl JoinedWrites {
    /// Adds a write: common table expressions as in `name as (insert …)`, whose parameters begin at
    /// `$1`. The names are those of no other write. The values follow by [`Self::bind`].
    pub fn add(&mut self, expressions: &'static str) -> &mut Self {
        self.has_one_row = false;
        self.push_write(expressions)
    }

    /// Adds a write of that many rows. It reads them from `rows($1::uuid, …) as t`, whose columns
    /// follow by [`Self::bind_column`]. A single row is no array, which costs the server less.
    pub fn add_rows(&mut self, count: usize, expressions: &'static str) -> &mut Self {
        self.has_one_row = count == 1;
        self.push_write(&spelled_rows(expressions, count))
    }

    fn push_write(&mut self, expressions: &str) -> &mut Self {
        self.expressions.push_str(if self.is_empty() { "" } else { ", " });
        push_renumbered(&mut self.expressions, expressions, self.arguments.len());
        self
    }

    /// Adds the values of the next column of [`Self::add_rows`].
    pub fn bind_column<'q, T>(&mut self, mut column: Vec<T>) -> &mut Self
    where
        T: Encode<'q, Postgres> + Type<Postgres> + 'q,
        Vec<T>: Encode<'q, Postgres> + Type<Postgres>,
    {
        match column.pop() {
            Some(value) if self.has_one_row => self.bind(value),
            last => {
                column.extend(last);
                self.bind(column)
            }
        }
    }

    /// Adds a condition that must hold for the writes. Its parameters begin at `$1`, and it may
    /// name any of the writes. The values follow by [`Self::bind`].
    pub fn require(&mut self, condition: &'static str) -> &mut Self {
        self.conditions.push_str(if self.conditions.is_empty() { "" } else { " and " });
        push_renumbered(&mut self.conditions, condition, self.arguments.len());
        self
    }

    /// Adds the next value of the last write or condition.
    pub fn bind<'q, T: Encode<'q, Postgres> + Type<Postgres> + 'q>(
        &mut self,
        value: T,
    ) -> &mut Self {
        if let Err(error) = self.arguments.add(value) {
            self.error.get_or_insert(error);
        }
        self
    }

    /// Returns whether there is nothing to write.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.expressions.is_empty()
    }

    /// Sends all writes. Nothing is left to write then.
    ///
    /// # Errors
    /// If one of the writes fails, none is done.
    pub async fn execute(&mut self, connection: &mut PgConnection) -> Result<(), sqlx::Error> {
        if self.is_empty() {
            return Ok(());
        }
        let (statement, arguments) = self.take_statement("")?;
        sqlx::query_with(&statement, arguments).execute(connection).await?;
        Ok(())
    }

    /// Sends all writes, and returns the rows of `select` with these columns and tables. The tables
    /// may be names of the writes.
    ///
    /// # Errors
    /// If one of the writes fails, none is done.
    pub async fn fetch_all(
        &mut self,
        connection: &mut PgConnection,
        selected: &'static str,
    ) -> Result<Vec<PgRow>, sqlx::Error> {
        let (statement, arguments) = self.take_statement(selected)?;
        sqlx::query_with(&statement, arguments).fetch_all(connection).await
    }

    /// Sends all writes, and returns the row of `select` with these columns and tables. They and
    /// the writes can read from `fresh` whether the conditions hold. A write can also name a later
    /// one.
    pub(crate) async fn fetch_confirmed(
        mut self,
        connection: &mut PgConnection,
        selected: &'static str,
    ) -> Result<PgRow, sqlx::Error> {
        let conditions = self.take_conditions();
        let _ = write!(self.expressions, ", fresh as materialized (select {conditions} as holds)");
        let (statement, arguments) = self.take_statement(selected)?;
        let statement = statement.replacen("with ", "with recursive ", 1);
        sqlx::query_with(&statement, arguments).fetch_one(connection).await
    }

    /// Returns whether the conditions hold. Nothing may be written with them.
    ///
    /// # Errors
    /// If the database does not answer.
    pub async fn conditions_hold(
        mut self,
        connection: &mut PgConnection,
    ) -> Result<bool, sqlx::Error> {
        let conditions = self.take_conditions();
        let (statement, arguments) = self.take_statement(&conditions)?;
        sqlx::query_scalar_with(&statement, arguments).fetch_one(connection).await
    }

    /// Takes the conditions as one SQL condition.
    fn take_conditions(&mut self) -> String {
        let conditions = std::mem::take(&mut self.conditions);
        if conditions.is_empty() { "true".to_owned() } else { conditions }
    }

    fn take_statement(&mut self, selected: &str) -> Result<(String, PgArguments), sqlx::Error> {
        let Self { expressions, arguments, error, .. } = std::mem::take(self);
        if let Some(error) = error {
            return Err(sqlx::Error::Encode(error));
        }
        let with = if expressions.is_empty() { "" } else { "with " };
        Ok((format!("{with}{expressions} select {selected}"), arguments))
    }
}

/// Spells `rows($1::uuid, …)` out: as values if there is one row, else as arrays.
fn spelled_rows(expressions: &str, count: usize) -> String {
    let mut parts = expressions.split("rows(");
    let mut spelled = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (columns, rest) = part.split_once(')').unwrap_or((part, ""));
        if count == 1 {
            let _ = write!(spelled, "(values ({columns})){rest}");
        } else {
            let _ = write!(spelled, "unnest({}[]){rest}", columns.replace(',', "[],"));
        }
    }
    spelled
}

/// Adds a text whose parameters begin at `$1`, and numbers them after the parameters before.
fn push_renumbered(statement: &mut String, text: &str, before: usize) {
    let mut parts = text.split('$');
    statement.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let digits = part.bytes().take_while(u8::is_ascii_digit).count();
        let (number, rest) = part.split_at(digits);
        let number = number.parse().map_or(0, |number: usize| number + before);
        let _ = write!(statement, "${number}{rest}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_row_is_no_array() {
        let text = "a as (insert into a select t.*, $3 from rows($1::uuid, $2::text) as t)";
        let mut writes = JoinedWrites::default();
        writes.add_rows(1, text).bind_column(vec![1_i64]).bind_column(vec!["x"]).bind(true);
        writes.add_rows(2, text).bind_column(vec![1_i64, 2]).bind_column(vec!["x", "y"]);
        assert_eq!(
            writes.expressions,
            "a as (insert into a select t.*, $3 from (values ($1::uuid, $2::text)) as t), \
             a as (insert into a select t.*, $6 from unnest($4::uuid[], $5::text[]) as t)"
        );
        assert_eq!(writes.arguments.len(), 5);
    }

    #[test]
    fn parameters_are_numbered_through() {
        let mut writes = JoinedWrites::default();
        assert!(writes.is_empty());
        writes.add("a as (insert into a values ($1, $2))").bind(1_i64).bind("x");
        writes.require("d = $2").require("e = $1");
        writes.add("b as (insert into b select $2, $1 from a where c = $10)").bind(2_i64);
        assert_eq!(
            writes.expressions,
            "a as (insert into a values ($1, $2)), \
             b as (insert into b select $4, $3 from a where c = $12)"
        );
        assert!(!writes.is_empty());
        assert_eq!(writes.take_conditions(), "d = $4 and e = $3");
        assert_eq!(writes.take_conditions(), "true");
    }
}
