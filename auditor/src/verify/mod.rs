//! Does the database still say what it said? Everything is made again from what is stored, from the
//! first event on: digests, seals, entries, links, heads; and at each checkpoint all of it must come
//! to what was signed then. The log is walked once, in windows: memory is that of one window, the end
//! of each firm's chain and the list of checkpoints.

mod flaw;
mod walk;
mod witnesses;

use domain::time::Timestamp;
use eventstore::proof;
use projector::audit::heads_after;
use projector::seals::sealed_to;
use sqlx::{PgConnection, PgPool};

use crate::error::AuditError;
use crate::keys::PublicKey;
use crate::notary::Notary;
use crate::snapshot;
use walk::AuditWalk;
use witnesses::TrustedCheckpoints;

pub use flaw::{Flaw, FlawLocation};
pub(crate) use flaw::{VerifyStop, broken};

/// Heads read at a time.
const HEADS_PER_PAGE: i64 = 5_000;

/// What a verification comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AuditVerdict<R> {
    /// All of it is as it was.
    Intact(R),
    /// It is not; this is the first place.
    Broken(Flaw),
    /// Nothing is wrong, as far as can be told; what cannot be told.
    Incomplete(String),
}

/// What was found intact.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DatabaseReport {
    /// Events whose digests hold.
    pub events: u64,
    /// The last position that was looked at.
    pub through: i64,
    /// Blocks whose seals hold.
    pub seals: i64,
    /// Entries that are what their events say, each linked to the one before.
    pub entries: u64,
    /// Chains.
    pub firms: u64,
    /// Checkpoints that the database agrees with.
    pub checkpoints: u64,
    /// The last of them: its position, and when it was taken.
    pub witnessed: Option<(i64, Timestamp)>,
}

/// Verifies a database against the checkpoints of a notary; `trusted` are the keys that are believed,
/// by default those of the notary. Progress is told as (positions done, of how many).
///
/// # Errors
/// If the database does not answer, or a file cannot be read.
pub async fn database(
    pool: &PgPool,
    notary: &Notary,
    trusted: Option<Vec<PublicKey>>,
    progress: impl Fn(i64, i64) + Send,
) -> Result<AuditVerdict<DatabaseReport>, AuditError> {
    let verified = async {
        let trusted = trusted.map_or_else(|| notary.keys.list(), Ok)?;
        // Before the database is looked at: whatever a checkpoint says was there already.
        let witnesses = TrustedCheckpoints::read(&notary.checkpoints, &trusted)?;
        let mut transaction = snapshot::begin(pool).await.map_err(AuditError::from)?;
        walk(&mut transaction, witnesses, progress).await
    };
    match verified.await {
        Ok((report, None)) => Ok(AuditVerdict::Intact(report)),
        Ok((_, Some(unknown))) | Err(VerifyStop::Unknown(unknown)) => {
            Ok(AuditVerdict::Incomplete(unknown))
        }
        Err(VerifyStop::Broken(flaw)) => Ok(AuditVerdict::Broken(flaw)),
        Err(VerifyStop::Failed(error)) => Err(error),
    }
}

async fn walk(
    connection: &mut PgConnection,
    witnesses: TrustedCheckpoints,
    progress: impl Fn(i64, i64),
) -> Result<(DatabaseReport, Option<String>), VerifyStop> {
    let unknown = witnesses.unknown(connection).await?;
    let sealed_to = sealed_to(connection).await?;
    let end = proof::height(connection).await?.max(sealed_to);
    let mut walk = AuditWalk::new(witnesses, (snapshot::followed(connection).await?, sealed_to));
    let mut after = 0;
    while after < end {
        let through = (after + walk::WINDOW_POSITIONS).min(end);
        walk.window(connection, (after, through)).await?;
        progress(through, end);
        after = through;
    }
    walk.end(connection, end).await?;
    compare_heads(connection, &walk).await?;
    Ok((walk.report(end), unknown))
}

/// The ends of the chains that are kept for the next entry are those the entries lead to.
async fn compare_heads(connection: &mut PgConnection, walk: &AuditWalk) -> Result<(), VerifyStop> {
    let mut after = None;
    let mut kept = 0;
    loop {
        let rows = heads_after(connection, after, HEADS_PER_PAGE).await?;
        for row in &rows {
            if walk.chain(row.firm_id).is_none_or(|chain| row.chain().as_ref() != Some(chain)) {
                let place = FlawLocation::Head { firm_id: row.firm_id };
                return broken(place, "the kept end of the chain is not where its entries end");
            }
        }
        kept += rows.len();
        match rows.last() {
            Some(last) => after = Some(last.firm_id),
            None => break,
        }
    }
    match walk.chains().nth(kept) {
        None => Ok(()),
        Some(_) => broken(FlawLocation::Heads, "the kept end of a chain is missing"),
    }
}
