//! Looks for words where none should be: in every column of both databases, in any disguise.

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use eventstore::connect;

use crate::world::World;

/// The texts to look for: the word, its bytes in hex, and the part of its base64 that does not
/// depend on the bytes around the word, for each of three offsets.
fn disguises(word: &str) -> Vec<String> {
    let in_base64 = |before: usize| {
        let bytes = [&vec![0; before], word.as_bytes()].concat();
        STANDARD_NO_PAD.encode(&bytes)[(8 * before).div_ceil(6)..8 * bytes.len() / 6].to_owned()
    };
    let mut texts = vec![word.to_owned(), hex::encode(word)];
    texts.extend((0..3).map(in_base64));
    texts
}

/// One look per table, which answers with the columns.
const LOOKS: &str = "
    select 'select array_remove(array[' || string_agg(format(
               'case when exists (select 1 from %I where %s ilike any($1)) then %L end',
               table_name,
               format(case when data_type = 'bytea' then 'encode(%I, ''escape'')' else '%I::text' end,
                      column_name),
               table_name || '.' || column_name), ', ') || '], null)'
      from information_schema.columns where table_schema = 'public' group by table_name";

impl World {
    /// The columns of both databases in which this text is found, in upper or lower case. It may be
    /// plain, in hex or in base64, in text or in bytes.
    pub async fn columns_holding(&self, text: &str) -> Vec<String> {
        let disguises: Vec<_> = disguises(text).iter().map(|text| format!("%{text}%")).collect();
        // Connections of their own: the service's are planned for looking things up.
        let databases = [&self.database.main, &self.database.keyring];
        let mut holding = Vec::new();
        for pool in databases.map(|database| connect(database.clone(), 1)) {
            let looks: Vec<String> = sqlx::query_scalar(LOOKS).fetch_all(&pool).await.unwrap();
            for look in looks {
                let found = sqlx::query_scalar(&look).bind(&disguises).fetch_one(&pool).await;
                holding.extend::<Vec<String>>(found.unwrap());
            }
        }
        holding
    }
}
