//! One response: saved on the way, and submitted or abandoned.

use uuid::Uuid;

use super::event::{DAY, EventTeller, EventTime, HOUR, MINUTE, SECOND};
use super::firms::GeneratedFirm;
use super::forms::GeneratedForm;
use super::json::ObjectWriter;
use super::people::{GeneratedPerson, PersonFate};
use super::random::Random;
use super::words::{DEVICES, FormQuestion, QuestionKind, UTM};

/// The delay between an event and its report, in milliseconds.
const REPORT_LAG_MS: (i64, i64) = (20, 700);

/// An event about a response's answers, and the field with its time.
#[derive(Clone, Copy, PartialEq, Eq)]
struct ResponseEventKind {
    name: &'static str,
    time_field: &'static str,
}

const SAVED: ResponseEventKind =
    ResponseEventKind { name: "response.saved", time_field: "saved_at" };

const SUBMITTED: ResponseEventKind =
    ResponseEventKind { name: "response.submitted", time_field: "submitted_at" };

/// A response as it will be in the end.
pub(super) struct GeneratedResponse<'a> {
    pub(super) id: Uuid,
    pub(super) firm: &'a GeneratedFirm,
    pub(super) form: &'a GeneratedForm,
    pub(super) person: GeneratedPerson,
    pub(super) fate: PersonFate,
    pub(super) score: u64,
    device: &'static str,
    ending: &'static str,
    answers: Vec<(&'static FormQuestion, String)>,
    amount: u64,
    hidden: Vec<(&'static str, &'static str)>,
}

impl<'a> GeneratedResponse<'a> {
    pub(super) fn new(
        random: &mut Random,
        number: u64,
        firm: &'a GeneratedFirm,
        form: &'a GeneratedForm,
        begins: EventTime,
    ) -> Self {
        let fate = PersonFate::new(random);
        let person = GeneratedPerson::new(random, firm, fate.is_personal().then_some(number));
        let template = form.template;
        let questions = template.questions.iter();
        let answers = questions.map(|q| (q, made_up_answer(random, q, &person, begins))).collect();
        Self {
            id: random.draw_id(),
            firm,
            form,
            person,
            fate,
            score: random.draw_below(101),
            device: random.pick_one(&DEVICES),
            ending: random.pick_one(template.endings),
            answers,
            amount: random.draw_below(2_000_000),
            hidden: hidden_values(random, form),
        }
    }

    /// Tells the saves and the submission, and returns the submission's time. Most responses are
    /// saved once or not at all.
    pub(super) fn tell_answers(
        &self,
        teller: &mut EventTeller,
        begins: EventTime,
    ) -> Option<EventTime> {
        let submits = teller.random.per_mille(860);
        let saves = teller.random.pick_one(&[0, 0, 0, 0, 1, 1, 1, 2, 3, 4]);
        let saves = if submits { saves } else { 1.max(saves) };
        let mut now = begins;
        for save in 0..saves {
            let answered = self.answers.len() * (save + 1) / 5;
            self.report_answers(teller, SAVED, now, answered);
            now = now.after(teller.random.draw_between(5 * SECOND, 6 * MINUTE));
        }
        submits.then(|| {
            let all = self.answers.len();
            self.report_answers(teller, SUBMITTED, now, all);
            now
        })
    }

    /// Tells the first answers of the response. A save has no ending.
    fn report_answers(
        &self,
        teller: &mut EventTeller,
        kind: ResponseEventKind,
        at: EventTime,
        answered: usize,
    ) {
        let time = at.after(teller.random.draw_between(REPORT_LAG_MS.0, REPORT_LAG_MS.1));
        teller.tell(kind.name, time, |data| {
            data.plain_text("response_id", self.id).plain_text("form_id", self.form.id);
            data.plain_text(kind.time_field, at);
            data.text("device", self.device).text("lang", self.person.origin.lang);
            if kind == SUBMITTED {
                data.text("ending", self.ending)
                    .object("variables", |one| self.write_variables(one));
            }
            let answers = &self.answers[..answered];
            if answers.iter().any(|(question, _)| matches!(question.kind, QuestionKind::Contact)) {
                data.object("respondent", |respondent| self.person.write_fields(respondent));
            }
            data.objects("answers", answers, |one, (question, answer)| {
                one.text("id", question.id).text("question", question.words);
                one.text("type", question.kind.name()).text("answer", answer);
            });
            data.object("hidden", |fields| {
                self.hidden.iter().for_each(|(key, value)| _ = fields.text(key, value));
            });
        });
    }

    fn write_variables(&self, fields: &mut ObjectWriter<'_>) {
        fields.bare_value("score", self.score);
        if self.score > 20 {
            let whole = self.amount / 100;
            let cents = self.amount % 100;
            fields.bare_value("quote", format_args!("{whole}.{cents:02}"));
        }
        if self.score > 50 {
            fields.bare_value("priority", self.score > 75).text("topic", self.form.template.slug);
        }
    }
}

fn made_up_answer(
    random: &mut Random,
    question: &FormQuestion,
    person: &GeneratedPerson,
    at: EventTime,
) -> String {
    match question.kind {
        QuestionKind::Contact => person.contact_line(),
        QuestionKind::Short => person.pick_sentence(random).to_owned(),
        QuestionKind::Long => person.some_sentences(random),
        QuestionKind::Choice(choices) => pick_choice(random, choices),
        QuestionKind::Number(most) => pick_number(random, most),
        QuestionKind::Date => {
            date_text(at.after(random.draw_between(-400 * DAY, 120 * DAY) + HOUR))
        }
    }
}

/// One choice or, now and then, all.
fn pick_choice(random: &mut Random, choices: &[&str]) -> String {
    let all = random.per_mille(150);
    if all { choices.join(", ") } else { (random.pick_one(choices)).to_owned() }
}

/// Small numbers are more frequent. One in five has decimals.
fn pick_number(random: &mut Random, most: u64) -> String {
    let most = random.draw_below(most + 1);
    let whole = random.draw_below(most + 1);
    if random.per_mille(200) {
        random.fill_digits(&format!("{whole}.##"))
    } else {
        whole.to_string()
    }
}

fn date_text(at: EventTime) -> String {
    let mut day = at.to_string();
    day.truncate("2026-11-01".len());
    day
}

/// The values that a link gave: hidden fields, and the link's source.
fn hidden_values(random: &mut Random, form: &GeneratedForm) -> Vec<(&'static str, &'static str)> {
    let given = form.hidden.iter().filter(|_| random.per_mille(700)).copied().collect::<Vec<_>>();
    let mut hidden: Vec<_> =
        given.into_iter().map(|hidden| (hidden.key, random.pick_one(hidden.values))).collect();
    if random.per_mille(400) {
        let (source, medium, campaign) = random.pick_one(&UTM);
        hidden.extend([("utm_source", source), ("utm_medium", medium)]);
        hidden.push(("utm_campaign", campaign));
    }
    hidden
}
