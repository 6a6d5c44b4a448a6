//! The reports of `deliveries`: submissions to the forms of one firm. The forms stay as they were
//! made, so that the body of each delivery is known beforehand.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use ::activity::EventLine;
use anyhow::{Context, bail};
use bytes::Bytes;
use domain::activity::{Activity, ResponseReport};
use domain::delivery::{EventPayload, FormPart, PayloadSource};
use domain::form::{FormChange, FormDetails};
use domain::subscription::Trigger;
use uuid::Uuid;

use crate::activity::{Founding, Told, made_up};

/// Submissions, and the firm and forms that must be there before them.
pub(crate) struct Submissions {
    pub(crate) founding: Founding,
    forms: HashMap<Uuid, FormDetails>,
    reports: Vec<Told>,
}

impl Submissions {
    /// The first so many, each reported once.
    pub(crate) fn first(count: usize) -> anyhow::Result<Self> {
        let made_up = made_up(1);
        let founding = made_up.founding_lines().filter(|line| !line.is_about("form.changed"));
        let founding: Vec<EventLine> = founding.collect();
        let is_submission = |line: &EventLine| line.is_about("response.submitted");
        let mut submissions = made_up.response_lines().filter(is_submission);
        let (mut known, mut reports) = (HashSet::new(), Vec::with_capacity(count));
        while reports.len() < count {
            let told = Told::new(&submissions.next().context("there is no more")?)?;
            if known.insert(told.event.activity.response_id()) {
                reports.push(told);
            }
        }
        Ok(Self { forms: forms(&founding)?, founding: Founding::new(founding)?, reports })
    }

    /// Their lines, so many in a batch.
    pub(crate) fn batches(&self, per_batch: usize) -> Arc<[Vec<u8>]> {
        let batch = |reports: &[Told]| {
            reports.iter().flat_map(|report| &report.line).copied().collect::<Vec<u8>>()
        };
        self.reports.chunks(per_batch).map(batch).collect()
    }

    /// The bodies of their deliveries.
    pub(crate) fn bodies(&self) -> anyhow::Result<Vec<Bytes>> {
        self.reports.iter().map(|report| self.body(&report.event.activity)).collect()
    }

    fn body(&self, activity: &Activity) -> anyhow::Result<Bytes> {
        let Activity::ResponseSubmitted(ResponseReport { response_id, form_id, at, document }) =
            activity
        else {
            bail!("not a submission");
        };
        let FormDetails { title, url, .. } = self.forms.get(form_id).context("no such form")?;
        let payload = EventPayload::new(PayloadSource {
            trigger: Trigger::FormSubmitted,
            form: FormPart { id: (*form_id).into(), title: title.clone(), url: url.clone() },
            response_id: *response_id,
            submitted_at: *at,
            document,
            report: None,
            booking: None,
        });
        Ok(serde_json::to_vec(&payload)?.into())
    }
}

fn forms(founding: &[EventLine]) -> anyhow::Result<HashMap<Uuid, FormDetails>> {
    let mut forms = HashMap::new();
    for line in founding {
        let activity = Told::new(line)?.event.activity;
        if let Activity::Form { form_id, change: FormChange::Created(form) } = activity {
            forms.insert(form_id, form);
        }
    }
    Ok(forms)
}
