use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use api::intake::{CloudEvent, EventFormat, parse_events};
use domain::activity::{Activity, BATCH_MAX_EVENTS, LeadBand};
use domain::values::Timestamp;
use serde_json::Value;
use uuid::Uuid;

use super::*;

fn written(made_up: MadeUpActivity) -> String {
    let mut out = Vec::new();
    made_up.write_lines(&mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// As the intake reads it, in chunks as `ingest` makes them.
fn read(text: &str) -> Vec<CloudEvent> {
    let lines: Vec<&str> = text.lines().collect();
    let chunks = lines.chunks(BATCH_MAX_EVENTS);
    chunks
        .flat_map(|chunk| parse_events(EventFormat::Lines, chunk.join("\n").as_bytes()).unwrap())
        .collect()
}

fn values(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn count<'a>(values: &'a [Value], of: impl Fn(&'a Value) -> &'a Value) -> BTreeMap<&'a str, usize> {
    let mut counts = BTreeMap::new();
    for value in values {
        *counts.entry(of(value).as_str().unwrap()).or_default() += 1;
    }
    counts
}

#[test]
fn the_intake_reads_every_line() {
    for seed in [0, 1, 2, 77, u64::MAX] {
        let text = written(MadeUpActivity::new(3, 400, seed));
        assert!(read(&text).len() > 1_000, "seed {seed}");
    }
}

#[test]
fn a_seed_fixes_the_bytes() {
    let text = written(MadeUpActivity::new(3, 200, 7));
    assert_eq!(text, written(MadeUpActivity::new(3, 200, 7)));
    assert_ne!(text, written(MadeUpActivity::new(3, 200, 8)));
}

/// The digest is one on every machine and in every build. A change of the made-up activity changes
/// the digest.
#[test]
fn the_bytes_never_change() {
    let digest = Uuid::new_v5(&Uuid::nil(), written(MadeUpActivity::new(12, 300, 42)).as_bytes());
    assert_eq!(digest.to_string(), "fc30bed0-5732-58bc-ab4b-1e780da6f36f");
}

#[test]
fn every_kind_is_there() {
    let text = written(MadeUpActivity::new(30, 3_000, 5));
    let values = values(&text);
    let kinds = count(&values, |value| &value["type"]);
    assert_eq!(kinds.len(), 32, "{kinds:?}");
    let submitted = kinds["response.submitted"];
    assert!((2_400..2_800).contains(&submitted), "{kinds:?}");
    let answers: Vec<Value> = values
        .iter()
        .filter_map(|value| value["data"]["answers"].as_array())
        .flatten()
        .cloned()
        .collect();
    let kinds = count(&answers, |answer| &answer["type"]);
    let known = ["choice", "contact_group", "date", "long_text", "number", "short_text"];
    assert!(kinds.keys().copied().eq(known), "{kinds:?}");
    let longest = answers.iter().filter_map(|answer| answer["answer"].as_str()).map(str::len).max();
    assert!((4_096..65_536).contains(&longest.unwrap()), "{longest:?}");
}

#[test]
fn both_plans_and_all_bands_are_there() {
    let (mut plans, mut bands) = (BTreeSet::new(), BTreeSet::new());
    let text = written(MadeUpActivity::new(2, 100, 3));
    for value in values(&text) {
        plans.extend(value["data"]["plan"]["leads_in_full"].as_bool());
    }
    for event in read(&text) {
        if let Activity::LeadScored(lead) = event.activity {
            bands.insert(match lead.band {
                LeadBand::Cold => "cold",
                LeadBand::Warm => "warm",
                LeadBand::Hot => "hot",
            });
        }
    }
    assert_eq!((plans.len(), bands.len()), (2, 3));
}

/// Firms, members and forms come before the activities that need them.
#[test]
fn nothing_comes_before_firm_and_form() {
    let (mut firms, mut forms) = (HashSet::new(), HashSet::new());
    for event in read(&written(MadeUpActivity::new(20, 2_000, 9))) {
        let CloudEvent { firm_id, activity, .. } = event;
        match activity {
            Activity::Firm { .. } => _ = firms.insert(firm_id),
            Activity::Form { form_id, .. } => _ = forms.insert((firm_id, form_id)),
            Activity::ResponseSaved(report) | Activity::ResponseSubmitted(report) => {
                assert!(forms.contains(&(firm_id, report.form_id)));
            }
            _ => {}
        }
        assert!(firms.contains(&firm_id));
    }
}

/// The subject of a report of state. `None` for other activities.
fn subject(event: &CloudEvent, value: &Value) -> Option<String> {
    let about = match &event.activity {
        Activity::Firm { .. } => "firm".to_owned(),
        Activity::Member { member_id, .. } => member_id.to_string(),
        Activity::Form { form_id, .. } => form_id.to_string(),
        Activity::Report { report, .. } => Uuid::from(report.id).to_string(),
        Activity::Address { .. } => value["data"]["email"].to_string(),
        _ => return None,
    };
    Some(format!("{} {about}", event.firm_id))
}

/// Reports of state follow each other; the rest is mostly in order, and repeats are few.
#[test]
fn the_order_is_good_and_not_perfect() {
    let text = written(MadeUpActivity::new(5, 2_000, 11));
    let events = read(&text);
    let (mut newest, mut seen) = (HashMap::new(), HashSet::new());
    let (mut ids, mut repeats) = (HashSet::new(), 0);
    for (event, value) in events.iter().zip(values(&text)) {
        ids.insert(event.id.as_str());
        if !seen.insert(format!("{} {} {}", value["type"], event.time, value["data"])) {
            repeats += 1;
        } else if let Some(subject) = subject(event, &value) {
            let before = newest.insert(subject, event.time);
            assert!(before.is_none_or(|before| before < event.time), "{value}");
        }
    }
    let of_same_id = events.len() - ids.len();
    assert!(of_same_id > 0 && repeats > of_same_id, "{repeats} repeats, {of_same_id} of the same");
    let late = events.windows(2).filter(|pair| pair[1].time < pair[0].time).count();
    assert!((1..events.len() / 10).contains(&(late + repeats)), "{late} late, {repeats} repeats");
}

#[test]
fn addresses_are_nobodys() {
    let text = written(MadeUpActivity::new(4, 500, 13));
    for (place, _) in text.match_indices('@') {
        let domain = &text[place + 1..];
        assert!(domain.starts_with("example."), "{}", &domain[..20]);
    }
}

#[test]
fn the_time_covered_is_as_asked() {
    let at = |text: &str| -> Timestamp { text.parse().unwrap() };
    let until = at("2031-03-01T00:00:00Z");
    let events =
        read(&written(MadeUpActivity { until, weeks: 1, ..MadeUpActivity::new(2, 50, 1) }));
    let (from, late) = (at("2031-02-22T00:00:00Z"), at("2031-02-27T00:00:00Z"));
    assert!(events.iter().all(|event| from <= event.time && event.time <= until));
    assert!(events.iter().any(|event| event.time > late));
}

#[test]
fn activity_may_hold_no_response() {
    let text = written(MadeUpActivity::new(1, 0, 1));
    assert!(text.contains("firm.opened") && !text.contains("response."));
}
