//! Forms: made, published, changed, unpublished and deleted.

use uuid::Uuid;

use super::event::{EventTime, SECOND};
use super::json::ObjectWriter;
use super::life::FirmLife;
use super::words::{FormTemplate, HIDDEN_FIELDS, HiddenFieldTemplate};

/// A form as its respondents see it.
#[derive(Debug)]
pub(super) struct GeneratedForm {
    pub(super) id: Uuid,
    pub(super) template: &'static FormTemplate,
    pub(super) hidden: Vec<&'static HiddenFieldTemplate>,
    /// `None` for a draft.
    opens_at: Option<EventTime>,
    closes_at: Option<EventTime>,
}

impl GeneratedForm {
    pub(super) fn is_open(&self, at: EventTime) -> bool {
        self.opens_at.is_some_and(|opens_at| opens_at <= at)
            && self.closes_at.is_none_or(|closes_at| at < closes_at)
    }
}

/// Tells the life of one form. The first form opens before the first response, and stays open.
pub(super) fn generate_form(
    life: &mut FirmLife,
    number: u64,
    templates: &'static [FormTemplate],
    firm: &str,
) -> GeneratedForm {
    let random = &mut life.teller.random;
    let template = &templates[random.pick_index(templates.len())];
    let hidden: Vec<&HiddenFieldTemplate> =
        HIDDEN_FIELDS.iter().filter(|_| random.per_mille(350)).collect();
    let id = random.draw_id();
    let mut form = GeneratedForm { id, template, hidden, opens_at: None, closes_at: None };
    let [first, second, third] = life.ordered_moments();
    let fate = if number == 0 { 0 } else { 1 + life.teller.random.draw_below(6) };
    let made = if fate == 5 { first } else { life.settling_time() };
    let status = if fate <= 1 { "published" } else { "draft" };
    form.tell_created(life, made, status, &format!("{firm}/{}-{number}", template.slug));
    match fate {
        0 | 1 => form.opens_at = Some(made),
        2 => form.tell_published(life, made.after(90 * SECOND)),
        3 => {
            form.tell_published(life, first);
            form.tell_ended(life, "form.deleted", third);
        }
        4 => {
            form.tell_published(life, first);
            form.tell_ended(life, "form.unpublished", second);
        }
        5 => form.tell_published(life, second),
        _ => {}
    }
    if number == 0 || life.teller.random.per_mille(300) {
        form.tell_changed(life, second.after(SECOND));
    }
    form
}

impl GeneratedForm {
    fn tell_created(&self, life: &mut FirmLife, made: EventTime, status: &str, path: &str) {
        life.teller.tell("form.created", made, |data| {
            data.plain_text("form_id", self.id).text("title", self.template.title);
            data.text("slug", path.rsplit('/').next().unwrap_or(path));
            data.text("url", &format!("https://forms.example.com/{path}"));
            data.text("status", status);
            data.objects("hidden_fields", &self.hidden, |field, hidden| {
                write_hidden(hidden, field);
            });
            data.plain_text("created_at", made.after(-40));
        });
    }

    fn tell_published(&mut self, life: &mut FirmLife, at: EventTime) {
        self.opens_at = Some(at);
        self.tell_moved(life, "form.published", at);
    }

    fn tell_ended(&mut self, life: &mut FirmLife, kind: &'static str, at: EventTime) {
        self.closes_at = Some(at);
        self.tell_moved(life, kind, at);
    }

    fn tell_moved(&self, life: &mut FirmLife, kind: &'static str, at: EventTime) {
        life.teller.tell(kind, at, |data| {
            data.plain_text("form_id", self.id);
        });
    }

    /// Changes the title, or adds a hidden field.
    fn tell_changed(&mut self, life: &mut FirmLife, at: EventTime) {
        let more = &HIDDEN_FIELDS[life.teller.random.pick_index(HIDDEN_FIELDS.len())];
        let renames = life.teller.random.per_mille(500);
        if self.hidden.iter().all(|hidden| hidden.key != more.key) {
            self.hidden.push(more);
        }
        life.teller.tell("form.changed", at, |data| {
            data.plain_text("form_id", self.id);
            if renames {
                data.text("title", &format!("{} (2)", self.template.title));
            } else {
                data.objects("hidden_fields", &self.hidden, |field, hidden| {
                    write_hidden(hidden, field);
                });
            }
        });
    }
}

fn write_hidden(hidden: &HiddenFieldTemplate, field: &mut ObjectWriter<'_>) {
    field.text("key", hidden.key).text("label", hidden.label);
}
