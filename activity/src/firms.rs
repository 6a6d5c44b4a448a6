//! Firms and their members: how they join, change and leave.

use uuid::Uuid;

use super::event::{EventLine, EventTeller, EventTime};
use super::forms::{self, GeneratedForm};
use super::json::ObjectWriter;
use super::life::FirmLife;
use super::period::RunPeriod;
use super::random::Random;
use super::words::{COLORS, FIRM_LOCALES, FormTemplate, Locale, MAIL_DOMAINS, PRACTICES};

/// The row of draws for firms.
const FIRM_DRAWS: u64 = 1;

/// A firm as its respondents see it.
#[derive(Debug)]
pub(super) struct GeneratedFirm {
    pub(super) id: Uuid,
    pub(super) home: &'static Locale,
    /// At least one form. The first is always open.
    pub(super) forms: Vec<GeneratedForm>,
    pub(super) closes_at: Option<EventTime>,
}

/// All firms, and the events of their lives in order of time.
pub(super) fn generate_firms(
    seed: u64,
    number: u32,
    span: RunPeriod,
) -> (Vec<GeneratedFirm>, Vec<EventLine>) {
    let mut lives = Vec::new();
    let firms = (0..number).map(|number| generate_firm(seed, number, span, &mut lives)).collect();
    lives.sort_by_key(|line| line.arrives_at);
    (firms, lives)
}

/// Tells the life of one firm.
fn generate_firm(
    seed: u64,
    number: u32,
    span: RunPeriod,
    lives: &mut Vec<EventLine>,
) -> GeneratedFirm {
    let mut random = Random::new(seed, FIRM_DRAWS, number.into());
    let (home, templates) = random.pick_one(&FIRM_LOCALES);
    let firm_id = random.draw_id();
    let opened = EventTime(random.draw_between(span.from.0, span.from.0.midpoint(span.settled.0)));
    let mut life =
        FirmLife { teller: EventTeller { random, firm_id, lines: Vec::new() }, span, opened };
    let slug = life.open_firm(home, number);
    life.add_members();
    let forms = life.generate_forms(templates, &slug);
    life.tell_changes(number);
    let closes_at = life.close_firm(number);
    lives.append(&mut life.teller.lines);
    GeneratedFirm { id: firm_id, home, forms, closes_at }
}

impl FirmLife {
    /// Opens the firm, and returns its short name.
    fn open_firm(&mut self, home: &Locale, number: u32) -> String {
        let random = &mut self.teller.random;
        let (last, ascii) = random.pick_one(home.last);
        let (partner, _) = random.pick_one(home.last);
        let name = format!("{last} & {partner} {}", random.pick_one(&PRACTICES));
        let slug = format!("{ascii}-{number}");
        // Even and odd firms differ, so both kinds of plan occur with two firms.
        let in_full = number.is_multiple_of(2);
        let brand = GeneratedBrand::new(random, &slug);
        self.teller.tell("firm.opened", self.opened, |data| {
            data.text("name", &name);
            data.object("plan", |plan| {
                plan.bare_value("leads_in_full", in_full);
            });
            data.object("brand", |fields| brand.write_fields(fields));
        });
        slug
    }

    fn add_members(&mut self) {
        let owner = self.teller.random.draw_id();
        self.tell_member("member.joined", owner, Some("owner"), self.opened.after(600));
        for _ in 0..1 + self.teller.random.draw_below(4) {
            let member = self.teller.random.draw_id();
            let after = self.settling_time();
            let role = self.teller.random.pick_one(&["admin", "member", "member"]);
            self.tell_member("member.joined", member, Some(role), after);
            self.tell_career(member, role);
        }
    }

    /// Tells a member's changes over the weeks.
    fn tell_career(&mut self, member: Uuid, role: &str) {
        let [first, second, third] = self.ordered_moments();
        let other = if role == "admin" { "member" } else { "admin" };
        match self.teller.random.draw_below(6) {
            0 => self.tell_member("member.role_changed", member, Some(other), first),
            1 => {
                self.tell_member("member.disabled", member, None, first);
                self.tell_member("member.enabled", member, None, second);
            }
            2 => self.tell_member("member.left", member, None, second),
            3 => {
                self.tell_member("member.role_changed", member, Some(other), first);
                self.tell_member("member.left", member, None, second);
                self.tell_member("member.joined", member, Some(role), third);
            }
            _ => {}
        }
    }

    fn tell_member(&mut self, kind: &'static str, member: Uuid, role: Option<&str>, at: EventTime) {
        self.teller.tell(kind, at, |data| {
            data.plain_text("member_id", member);
            if let Some(role) = role {
                data.text("role", role);
            }
        });
    }

    /// Makes one to five forms, while the firm settles or later.
    fn generate_forms(
        &mut self,
        templates: &'static [FormTemplate],
        slug: &str,
    ) -> Vec<GeneratedForm> {
        let more = self.teller.random.draw_below(4);
        (0..=more).map(|number| forms::generate_form(self, number, templates, slug)).collect()
    }

    fn tell_changes(&mut self, number: u32) {
        let [first, second, third] = self.ordered_moments();
        let random = &mut self.teller.random;
        let brand = GeneratedBrand::new(random, "new");
        let in_full = random.per_mille(500);
        match random.draw_below(5) {
            0 => self.teller.tell("firm.changed", first, |data| {
                data.object("brand", |fields| brand.write_fields(fields));
            }),
            1 => self.teller.tell("firm.changed", first, |data| {
                data.text("name", &format!("Office № {number}, “renamed”"));
                data.object("plan", |plan| {
                    plan.bare_value("leads_in_full", in_full);
                });
            }),
            2 => self.teller.tell("firm.changed", second, |data| {
                data.bare_value("invites_enabled", in_full);
            }),
            3 => {
                self.teller.tell("firm.suspended", second, |_| {});
                self.teller.tell("firm.resumed", third, |_| {});
            }
            _ => {}
        }
    }

    /// Closes one firm in nine, towards the end. The first firm never closes.
    fn close_firm(&mut self, number: u32) -> Option<EventTime> {
        let closes_at = self.span.time_at_part(15, 16);
        (number % 9 == 8).then(|| {
            self.teller.tell("firm.closed", closes_at, |_| {});
            closes_at
        })
    }
}

/// The look of a firm's mails, and the address for replies.
struct GeneratedBrand {
    color: &'static str,
    logo_url: Option<String>,
    reply_to: Option<String>,
}

impl GeneratedBrand {
    fn new(random: &mut Random, slug: &str) -> Self {
        let color = random.pick_one(&COLORS);
        let logo = format!("https://forms.example.com/{slug}/logo.svg");
        let reply_to = format!("office+{slug}@{}", random.pick_one(&MAIL_DOMAINS));
        let logo_url = random.per_mille(700).then_some(logo);
        let reply_to = random.per_mille(800).then_some(reply_to);
        Self { color, logo_url, reply_to }
    }

    fn write_fields(&self, fields: &mut ObjectWriter<'_>) {
        fields.text("color", self.color);
        if let Some(logo_url) = &self.logo_url {
            fields.text("logo_url", logo_url);
        }
        if let Some(reply_to) = &self.reply_to {
            fields.text("reply_to", reply_to);
        }
    }
}
