//! Shows bodies and answers of deliveries to readers who give a reason (ruling 50). The reading is
//! recorded before anything is shown.

use std::collections::{HashMap, HashSet};

use domain::delivery::{Attempt, ContentFacts, ContentState, Outcome};
use domain::event::Actor;
use domain::operations::{ReadAs, ReadingDetails, ReadingSubject};
use projector::subjects;
use serde::Serialize;
use uuid::Uuid;
use vault::{DataKeys, KeySubject, answers, bodies};

use super::{parse_reason, readings};
use crate::error::Error;
use crate::service::Service;

/// The delivery whose contents are shown, and the reader.
#[derive(Debug, Clone, Copy)]
pub struct DeliveryContents<'a> {
    /// The firm.
    pub firm_id: Uuid,
    /// The delivery.
    pub delivery_id: Uuid,
    /// The response.
    pub response_id: Uuid,
    /// The attempts of the delivery.
    pub attempts: &'a [Attempt],
    /// The reader.
    pub actor: Actor,
}

/// A body or an answer, or why it is not shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ShownContent {
    /// Whether the content is shown, and why not.
    pub state: ContentState,
    /// The text.
    pub text: Option<String>,
}

impl ShownContent {
    fn new(facts: ContentFacts, text: Option<String>) -> Self {
        let state = facts.state();
        Self { state, text: text.filter(|_| state == ContentState::Shown) }
    }
}

/// The body that the delivery sent.
///
/// # Errors
/// `invalid_request` (the reason), `firm_not_found`.
pub async fn show_body(
    service: &Service,
    contents: DeliveryContents<'_>,
    why: Option<&str>,
) -> Result<ShownContent, Error> {
    let asked = contents.record_reading(service, ReadingSubject::Body, why).await?;
    let sent = contents.attempts.iter().rev().find_map(Attempt::body);
    let Some(sent) = sent else {
        let facts = ContentFacts { existed: false, erased: false, kept: false, asked };
        return Ok(ShownContent::new(facts, None));
    };
    let keys = contents.find_keys(service).await?;
    let erased = contents.is_erased(service).await?;
    let mut connection = service.store.pool().acquire().await?;
    let kept = bodies::sizes(&mut connection, &[sent.id]).await?.contains_key(&sent.id);
    let facts = ContentFacts { existed: true, erased, kept, asked };
    if facts.state() != ContentState::Shown {
        return Ok(ShownContent::new(facts, None));
    }
    let body = bodies::read(&mut connection, &keys, &[sent.id]).await?.pop();
    let text = body.map(|body| String::from_utf8_lossy(&body.bytes).into_owned());
    Ok(ShownContent::new(ContentFacts { kept: text.is_some(), ..facts }, text))
}

/// The answers that the delivery got, by attempt. An interrupted attempt has none of its own: the
/// number belongs to the late answer.
///
/// # Errors
/// `invalid_request` (the reason), `firm_not_found`.
pub async fn show_answers(
    service: &Service,
    contents: DeliveryContents<'_>,
    why: Option<&str>,
) -> Result<Vec<ShownContent>, Error> {
    let asked = contents.record_reading(service, ReadingSubject::Answer, why).await?;
    let keys = contents.find_keys(service).await?;
    let erased = contents.is_erased(service).await?;
    let mut connection = service.store.pool().acquire().await?;
    let kept: HashSet<i32> = answers::kept(&mut connection, contents.delivery_id).await?;
    let mut texts: HashMap<i32, String> = HashMap::new();
    if asked && !erased {
        texts = answers::read(&mut connection, &keys, contents.delivery_id).await?;
    }
    let answer = |attempt: &Attempt| {
        let number = i32::try_from(attempt.number).unwrap_or(i32::MAX);
        let kept = kept.contains(&number);
        let existed =
            (kept || attempt.answer_sha256.is_some()) && attempt.outcome != Outcome::Interrupted;
        let facts = ContentFacts { existed, erased, kept, asked };
        ShownContent::new(facts, if existed { texts.remove(&number) } else { None })
    };
    Ok(contents.attempts.iter().map(answer).collect())
}

impl DeliveryContents<'_> {
    /// Records the reading, if a reason was given. Returns whether one was.
    async fn record_reading(
        self,
        service: &Service,
        what: ReadingSubject,
        why: Option<&str>,
    ) -> Result<bool, Error> {
        let Some(why) = why else { return Ok(false) };
        let look = ReadingDetails {
            delivery_id: Some(self.delivery_id),
            reason: Some(parse_reason(why)?),
            ..ReadingDetails::at(what, ReadAs::Page)
        };
        readings::record(service, self.firm_id, self.actor, look).await?;
        Ok(true)
    }

    async fn find_keys(self, service: &Service) -> Result<DataKeys, Error> {
        let subject = KeySubject { firm_id: self.firm_id, subject_id: self.response_id };
        Ok(service.keyring.find_keys(&[subject]).await?)
    }

    /// Whether the response is erased, or the data of its closed firm are dropped. The erasure is
    /// looked up after the keys are read.
    async fn is_erased(self, service: &Service) -> Result<bool, Error> {
        let mut connection = service.store.pool().acquire().await?;
        if projector::firms::is_dropped(&mut connection, self.firm_id).await? {
            return Ok(true);
        }
        let erased =
            subjects::erased_among(&mut connection, &[(self.firm_id, self.response_id)]).await?;
        Ok(!erased.is_empty())
    }
}
