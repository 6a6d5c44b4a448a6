//! Verifies the database: rebuilds the proof from the stored events and compares.
//!
//! - `walk` visits every row of the log and its proof once, in the order of positions.
//! - `events` reads a page of events, and the entries that they lead to.
//! - `chains` compares entries, `blocks` seals, `witnesses` has the signed checkpoints.
//! - `links` compares seals with each other, without the events.
//! - `deciding` compares tables that decide and are in no chain, `portal` the portal's sessions.
//! - `source` reads events of the database, and of the archive where ranges have left.
//! - `stepped` walks in steps with a short snapshot each, for the worker.
//!
//! The walk computes digests, seals, entries, links and heads from the first event on. At each
//! signed checkpoint the computed state must equal the signed state. Memory holds one page of each
//! table, the head of each chain and the list of signed checkpoints.

mod blocks;
mod chains;
mod deciding;
mod events;
mod links;
mod portal;
mod report;
mod rows;
mod source;
mod stepped;
mod stop;
mod visited;
mod walk;
mod witnesses;

use domain::audit::Seal;
use eventstore::proof;
use projector::audit::{followed_to, heads_after};
use projector::seals::sealed_to;
use sqlx::{PgConnection, PgPool};
use vault::installation;

use crate::archive::LogArchive;
use crate::error::AuditError;
use crate::keys::PublicKey;
use crate::notary::Notary;
use crate::snapshot;
use source::LogSource;
use walk::{AuditWalk, StatedPositions};
use witnesses::TrustedCheckpoints;

pub use chains::{AddedLate, AwaitedEntry};
pub use deciding::ComparedRows;
pub use report::{AuditVerdict, DatabaseReport};
pub(crate) use stepped::{ProofFiles, SteppedWalk, WalkBeginning, WalkStep};
pub(crate) use stop::{VerifyStop, broken_at};

pub use crate::flaw::{Flaw, FlawLocation};

/// Heads in one read.
const HEADS_PER_PAGE: i64 = 5_000;

/// The keys and the archive that a verification relies on.
#[derive(Debug, Default)]
pub struct VerifiedWith {
    /// The keys that signatures must be made with; by default those that the notary knows.
    pub trusted: Option<Vec<PublicKey>>,
    /// The archive that has the ranges which have left the database.
    pub archive: Option<LogArchive>,
}

/// Verifies a database against the signed checkpoints of a notary. Calls `progress` with the
/// positions done so far and the positions in all.
///
/// # Errors
/// If the database does not answer, or a file cannot be read.
pub async fn database(
    pool: &PgPool,
    notary: &Notary,
    VerifiedWith { trusted, archive }: VerifiedWith,
    progress: impl Fn(i64, i64) + Send,
) -> Result<AuditVerdict<DatabaseReport>, AuditError> {
    let verified = async {
        let trusted = trusted.map_or_else(|| notary.known_keys().map(|known| known.keys), Ok)?;
        require_keys(notary, &trusted)?;
        // Read before the snapshot begins: the database must then hold everything that a checkpoint
        // signs.
        let installation_id = installation::id_seen_by(&mut *pool.acquire().await?).await?;
        let witnesses = TrustedCheckpoints::read(&notary.checkpoints, &trusted, installation_id)?;
        let mut transaction = snapshot::begin_long(pool).await?;
        let source = LogSource::open(&mut transaction, archive.as_ref(), &trusted).await?;
        walk_log(&mut transaction, witnesses, source, progress).await
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

/// Refuses to judge signatures without any key.
fn require_keys(notary: &Notary, trusted: &[PublicKey]) -> Result<(), VerifyStop> {
    let folder = notary.checkpoints.folder().display();
    if trusted.is_empty() && !notary.checkpoints.numbered_files()?.is_empty() {
        return Err(VerifyStop::Unknown(format!(
            "no public key is known, so no signature can be checked: name a file of trusted keys \
             by --public-keys, or put the service's .pub files into {folder}"
        )));
    }
    Ok(())
}

async fn walk_log(
    connection: &mut PgConnection,
    witnesses: TrustedCheckpoints,
    source: LogSource,
    progress: impl Fn(i64, i64),
) -> Result<(DatabaseReport, Option<String>), VerifyStop> {
    let unwitnessed = witnesses.incomplete_reason(connection).await?;
    let stated = stated_positions(connection).await?;
    let mut walk = AuditWalk::new(witnesses, stated).reading(source);
    walk.verify_all(connection, |position| progress(position, stated.height)).await?;
    compare_heads(connection, &walk).await?;
    let tally = walk.unread.is_none().then_some(&walk.tally);
    let compared = deciding::compare(connection, tally).await?;
    let unknown = walk.unread.take().map_or(unwitnessed, |why| {
        Some(format!("an event of another build: {why}; nothing contradicts its digest"))
    });
    let unknown = unknown.or_else(|| compared.undecided.clone());
    Ok((DatabaseReport { compared, ..walk.report() }, unknown))
}

/// The positions that the database states. A follower cannot be above the highest position that was
/// drawn.
async fn stated_positions(connection: &mut PgConnection) -> Result<StatedPositions, VerifyStop> {
    let drawn = proof::drawn_height(connection).await?;
    let height = proof::height(connection).await?;
    let followed_to = followed_to(connection).await?;
    let sealed_to = sealed_to(connection).await?;
    for (name, position) in [("audit_log", followed_to), ("seals", sealed_to)] {
        if position > drawn {
            let why = format!("it is at position {position}, and the highest drawn is {drawn}");
            return broken_at(FlawLocation::Follower { name }, why);
        }
    }
    if sealed_to % Seal::POSITIONS_PER_BLOCK != 0 {
        let why = format!("it is at position {sealed_to}, where no block ends");
        return broken_at(FlawLocation::Follower { name: "seals" }, why);
    }
    Ok(StatedPositions { drawn, height, followed_to: followed_to.min(height), sealed_to })
}

/// Compares the stored heads, from which chains continue, with the heads that the walk computed.
async fn compare_heads(connection: &mut PgConnection, walk: &AuditWalk) -> Result<(), VerifyStop> {
    let mut after = None;
    let mut kept = 0;
    loop {
        let rows = heads_after(connection, after, HEADS_PER_PAGE).await?;
        for row in &rows {
            let chain = walk.chains.chain(row.firm_id);
            if chain.is_none_or(|chain| row.restored_chain().as_ref() != Some(chain)) {
                let place = FlawLocation::Head { firm_id: row.firm_id };
                return broken_at(place, "the kept end of the chain is not where its entries end");
            }
        }
        kept += rows.len();
        match rows.last() {
            Some(last) => after = Some(last.firm_id),
            None => break,
        }
    }
    if walk.chains.firm_count() == kept {
        return Ok(());
    }
    broken_at(FlawLocation::Heads, "the kept end of a chain is missing")
}
