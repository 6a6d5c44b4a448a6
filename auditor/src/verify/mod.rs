//! Verifies the database: rebuilds the proof from the stored events and compares.
//!
//! The walk computes digests, seals, entries, links and heads from the first event on. At each
//! signed checkpoint the computed state must equal the signed state. The log is read once, in
//! windows. Memory holds one window, the head of each chain and the list of signed checkpoints.

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

/// Heads in one read.
const HEADS_PER_PAGE: i64 = 5_000;

/// The result of a verification.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AuditVerdict<R> {
    /// The verification found no flaw and lacks nothing.
    Intact(R),
    /// The verification found this flaw first.
    Broken(Flaw),
    /// The verification found no flaw, but could not check everything, for this reason.
    Incomplete(String),
}

/// The counts of an intact database.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DatabaseReport {
    /// Events whose digests are right.
    pub events: u64,
    /// The last verified position.
    pub through: i64,
    /// Blocks whose seals are right.
    pub seals: i64,
    /// Entries that follow from their events and are linked to the entry before.
    pub entries: u64,
    /// Firms with a chain.
    pub firms: u64,
    /// Signed checkpoints that agree with the database.
    pub checkpoints: u64,
    /// Position and time of the last agreeing checkpoint.
    pub witnessed: Option<(i64, Timestamp)>,
}

/// Verifies a database against the signed checkpoints of a notary. Signatures must be made with a
/// key of `trusted`, by default with a key of the notary. Calls `progress` with the positions done
/// so far and the positions in all.
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
        // Read before the snapshot begins: the database must then hold everything that a checkpoint
        // signs.
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
    let followed_to = snapshot::followed(connection).await?;
    let mut walk = AuditWalk::new(witnesses, followed_to, sealed_to);
    let mut after = 0;
    while after < end {
        let through = (after + walk::WINDOW_POSITIONS).min(end);
        walk.window(connection, after, through).await?;
        progress(through, end);
        after = through;
    }
    walk.end(connection, end).await?;
    compare_heads(connection, &walk).await?;
    Ok((walk.report(end), unknown))
}

/// Compares the stored heads, from which chains continue, with the heads that the walk computed.
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
