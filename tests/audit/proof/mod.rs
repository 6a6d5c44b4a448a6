//! The audit log: its entries, its proof, and how each kind of tampering is found.

mod bundles;
mod chain;
mod doors;
mod empty;
mod folders;
mod forgeries;
mod gaps;
mod remote;
mod sessions;
mod signers;
mod tampering;
mod turns;
mod verifier;

use std::process::Output;
use std::time::Duration;

use api::commands::readings;
use auditor::VerificationSchedule;
use domain::event::Actor;
use domain::operations::{ReadAs, ReadingDetails, ReadingEvent, ReadingSubject};
use eventstore::NewEvent;
use tests::{Firm, TestDatabase, World};
use uuid::Uuid;

use tests::process::firmforms;

pub(crate) const DAY: Duration = Duration::from_secs(86_400);

/// A verification each day, which reads each older event again within these days.
pub(crate) const fn daily(days: u32) -> VerificationSchedule {
    VerificationSchedule { interval: DAY, reread_within: DAY.saturating_mul(days) }
}

fn look() -> ReadingDetails {
    ReadingDetails::at(ReadingSubject::Audit, ReadAs::Page)
}

/// Records one reading of the audit log.
async fn read(world: &World, firm: &Firm) {
    readings::record(world.service(), firm.id, Actor::System, look()).await.unwrap();
}

/// Records so many readings in one append.
async fn read_often(world: &World, firm: &Firm, times: usize) {
    let context = world.service().context(firm.id, Actor::Auditor(Uuid::nil()));
    let one = |_| {
        let stream = world.id().to_string();
        NewEvent::number_after(0, &stream, &context, [ReadingEvent::AuditRead(look())])
    };
    let events = (0..times).flat_map(one).collect();
    world.service().store.append(events).await.unwrap();
}

/// The real command on the databases of a world: its exit code and its words.
async fn audit(world: &World, arguments: &[&str]) -> (i32, String) {
    audit_of(&world.database, arguments).await
}

async fn audit_of(database: &TestDatabase, arguments: &[&str]) -> (i32, String) {
    said(&firmforms(database).args(arguments).output().await.unwrap())
}

fn said(output: &Output) -> (i32, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap(), text(&output.stdout) + &text(&output.stderr))
}
