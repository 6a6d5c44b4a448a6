//! Joined writes: inserts of one transaction that are sent together, as one statement. To send a
//! statement and to wait for its answer costs the service and the server more than most inserts.

use std::fmt::Write;

use sqlx::error::BoxDynError;
use sqlx::postgres::{PgArguments, PgRow};
use sqlx::{Arguments, Encode, PgConnection, Postgres, Type};

/// Writes whose results nobody reads. Each owner of a table adds its own.
#[derive(Default)]
pub struct JoinedWrites {
    /// Common table expressions, with the numbers of their parameters.
    expressions: String,
    arguments: PgArguments,
    /// The first value that could not be encoded.
    error: Option<BoxDynError>,
}

impl JoinedWrites {
    /// Adds a write: common table expressions as in `name as (insert …)`, whose parameters begin at
    /// `$1`. The names are those of no other write. The values follow by [`Self::bind`].
    pub fn add(&mut self, expressions: &'static str) -> &mut Self {
        let before = self.arguments.len();
        let separator = if self.is_empty() { "with " } else { ", " };
        self.expressions.push_str(separator);
        let mut parts = expressions.split('$');
        self.expressions.push_str(parts.next().unwrap_or_default());
        for part in parts {
            let digits = part.bytes().take_while(u8::is_ascii_digit).count();
            let (number, rest) = part.split_at(digits);
            let number = number.parse().map_or(0, |number: usize| number + before);
            let _ = write!(self.expressions, "${number}{rest}");
        }
        self
    }

    /// Adds the next value of the last write.
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

    fn take_statement(&mut self, selected: &str) -> Result<(String, PgArguments), sqlx::Error> {
        let Self { expressions, arguments, error } = std::mem::take(self);
        match error {
            Some(error) => Err(sqlx::Error::Encode(error)),
            None => Ok((expressions + " select " + selected, arguments)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_numbered_through() {
        let mut writes = JoinedWrites::default();
        assert!(writes.is_empty());
        writes.add("a as (insert into a values ($1, $2))").bind(1_i64).bind("x");
        writes.add("b as (insert into b select $2, $1 from a where c = $10)").bind(2_i64);
        assert_eq!(
            writes.expressions,
            "with a as (insert into a values ($1, $2)), \
             b as (insert into b select $4, $3 from a where c = $12)"
        );
        assert!(!writes.is_empty());
    }
}
