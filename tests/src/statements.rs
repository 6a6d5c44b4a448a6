//! Counts the statements that some work sends to its databases, by sqlx's trace of each.

use std::cell::Cell;
use std::fmt::Debug;
use std::sync::Once;

use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};

/// The target of sqlx's traces.
const TARGET: &str = "sqlx::query";

static LISTENING: Once = Once::new();

tokio::task_local! {
    static SENT: Cell<usize>;
}

/// Does the work. Returns its result, and the number of statements that it sent itself. Statements
/// of tasks that it starts are not counted, such as the pool's look at a connection that comes
/// back. The question of a new connection is the pool's, too, and is not counted.
pub async fn counting_statements<W: Future>(work: W) -> (W::Output, usize) {
    LISTENING.call_once(listen);
    let counted = async { (work.await, SENT.with(Cell::get)) };
    SENT.scope(Cell::new(0), counted).await
}

/// Listens for the whole process: tracing remembers for all threads if one of them leaves a target
/// out.
fn listen() {
    let only = Targets::new().with_target(TARGET, LevelFilter::TRACE);
    let counter = tracing_subscriber::registry().with(Counter.with_filter(only));
    tracing::subscriber::set_global_default(counter).unwrap();
    tracing::callsite::rebuild_interest_cache();
}

struct Counter;

impl<S: Subscriber> Layer<S> for Counter {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut question = PoolQuestion(false);
        event.record(&mut question);
        if !question.0 {
            let _ = SENT.try_with(|sent| sent.set(sent.get() + 1));
        }
    }
}

/// Whether a statement asks for the life of the server, as each new connection does.
struct PoolQuestion(bool);

impl Visit for PoolQuestion {
    fn record_debug(&mut self, _: &Field, value: &dyn Debug) {
        self.0 |= format!("{value:?}").contains("pg_control_system");
    }
}
