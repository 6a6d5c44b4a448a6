//! Names that people gave, and the words that tell of events with them.

use std::collections::HashMap;

use uuid::Uuid;

use super::all::Event;
use super::context::Actor;
use crate::subscription::GoneAnswer;

/// Names that people gave to keys and tokens. Without a name, the id stands for it.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct NameBook {
    /// Label and first characters of keys.
    pub keys: HashMap<Uuid, KeyName>,
    /// Labels of tokens of the internal API.
    pub tokens: HashMap<Uuid, String>,
    /// Names of users of the provider.
    pub users: HashMap<Uuid, String>,
}

/// How a key is recognised.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyName {
    /// The label.
    pub name: String,
    /// The first characters.
    pub prefix: String,
}

/// Words for people about events and objects. The crate `explain` has them, and the wiring hands
/// them to the internal API, so that a changed word rebuilds neither.
pub trait EventWords: Send + Sync {
    /// An event of the stream `id`, as a sentence.
    fn event_sentence(&self, names: &NameBook, id: &str, event: &Event) -> String;

    /// An actor, as a noun.
    fn actor_noun(&self, names: &NameBook, actor: Actor) -> String;

    /// The second 410 in a row, as a sentence. Its event alone does not know that it is the second.
    fn second_gone(&self, gone: &GoneAnswer) -> String;

    /// Commands that tell more about an object of this kind.
    fn commands_about(&self, kind: &str, id: &str, firm_id: Option<Uuid>) -> Vec<String>;
}
