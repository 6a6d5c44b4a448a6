//! I1 by the service's own proof: another voice, that does not know the statements of the first.

use deliverer::inspect::proof::{LogFilter, ProofScope, verify};
use sqlx::PgPool;

pub(super) async fn violations(pool: &PgPool) -> Vec<String> {
    let scope = ProofScope { from: 1, to: i64::MAX, part: LogFilter::default(), examples: 3 };
    let report = verify(pool, scope, |_, _| ()).await.unwrap();
    let examples = report.examples.iter();
    examples.map(|one| format!("I1: proof: {} {}", one.wrong, one.delivery_id)).collect()
}
