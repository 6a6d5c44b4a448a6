//! The strict reader of an activity, with a reader of `data` for each kind.

use super::checks;
use super::document::{Booking, ReportDocument, ResponseDocument};
use super::object::{NotADocument, Properties, StrictObject};
use super::shapes::{
    Activity, BookingMove, LeadBand, LeadScore, Payment, ReportMoment, ResponseReport,
};
use super::strangers::{cleaned_address, cleaned_invitee, cleaned_response};
use crate::firm::{FirmBrand, FirmChange, MemberChange, MemberRole, NoticeChange};
use crate::form::{FormChange, FormDetails, FormEdit};
use crate::invite::AddressChange;
use crate::subscription::FirmPlan;
use crate::values::{FIRM_NAME_MAX, Id, TITLE_MAX};

/// Why an activity is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotAnActivity {
    /// No activity has this type.
    #[error("type: not a type of activity")]
    UnknownType,
    /// The data does not fit the type.
    #[error("{}", in_data(.0))]
    Data(#[from] NotADocument),
}

/// Sentence about the fault. It names the part of `data`, if the fault lies in one part.
fn in_data(wrong: &NotADocument) -> String {
    match wrong {
        NotADocument::Missing(_)
        | NotADocument::Malformed { .. }
        | NotADocument::Unknown(_)
        | NotADocument::In { .. } => format!("data.{wrong}"),
        NotADocument::TooLarge(_) => format!("data: {wrong}"),
    }
}

impl Activity {
    /// Reads an activity from the `type` and `data` of its CloudEvent.
    ///
    /// # Errors
    /// [`NotAnActivity`] names the fault.
    pub fn read(kind: &str, data: Properties) -> Result<Self, NotAnActivity> {
        let data = StrictObject(data);
        Ok(match kind {
            "firm.opened" => firm_opened(data)?,
            "firm.changed" => firm_changed(data)?,
            "firm.suspended" => data.end(firm(FirmChange::Suspended))?,
            "firm.resumed" => data.end(firm(FirmChange::Resumed))?,
            "firm.closed" => data.end(firm(FirmChange::Closed))?,
            "member.joined" => member_with_role(data, MemberChange::Joined)?,
            "member.role_changed" => member_with_role(data, MemberChange::RoleChanged)?,
            "member.disabled" => member(data, MemberChange::Disabled)?,
            "member.enabled" => member(data, MemberChange::Enabled)?,
            "member.left" => member(data, MemberChange::Left)?,
            "form.created" => form_created(data)?,
            "form.changed" => form_changed(data)?,
            "form.published" => form(data, FormChange::Published)?,
            "form.unpublished" => form(data, FormChange::Unpublished)?,
            "form.deleted" => form(data, FormChange::Deleted)?,
            "address.unsubscribed" => address(data, AddressChange::Unsubscribed)?,
            "address.bounced" => address(data, AddressChange::Bounced)?,
            "address.restored" => address(data, AddressChange::Restored)?,
            "response.saved" => Self::ResponseSaved(response(data, "saved_at")?),
            "response.submitted" => Self::ResponseSubmitted(response(data, "submitted_at")?),
            "report.created" | "report.changed" => report(data)?,
            "report.approved" => report_moment(data, ReportMoment::Approved)?,
            "report.sent" => report_moment(data, ReportMoment::Sent)?,
            "report.opened" => report_moment(data, ReportMoment::Opened)?,
            "payment.received" => payment(data)?,
            "booking.made" => booking_made(data)?,
            "booking.rescheduled" => booking_moved(data)?,
            "booking.cancelled" => booking_cancelled(data)?,
            "lead.scored" => lead(data)?,
            "response.erased" => response_erased(data)?,
            "person.erased" => person_erased(data)?,
            _ => return Err(NotAnActivity::UnknownType),
        })
    }
}

const fn firm(change: FirmChange) -> Activity {
    Activity::Firm { change, reply_to: None }
}

fn firm_opened(mut data: StrictObject) -> Result<Activity, NotADocument> {
    let (brand, reply_to) = data.optional_part("brand", brand)?.unwrap_or_default();
    let change = FirmChange::Opened {
        name: checks::label("name", FIRM_NAME_MAX, data.required("name")?)?,
        plan: data.part("plan", plan)?,
        brand,
    };
    data.end(Activity::Firm { change, reply_to: Some(reply_to) })
}

fn firm_changed(mut data: StrictObject) -> Result<Activity, NotADocument> {
    let (brand, reply_to) = data.optional_part("brand", brand)?.unzip();
    let change = FirmChange::Changed {
        name: checks::optional_label("name", FIRM_NAME_MAX, data.optional("name")?)?,
        plan: data.optional_part("plan", plan)?,
        brand,
        invites_enabled: data.optional("invites_enabled")?,
        notices: data.optional_part("notices", notices)?.unwrap_or_default(),
    };
    data.end(Activity::Firm { change, reply_to })
}

fn notices(mut data: StrictObject) -> Result<NoticeChange, NotADocument> {
    let change = NoticeChange { lang: data.optional("lang")?, mail: data.optional("mail")? };
    data.end(change)
}

fn plan(mut data: StrictObject) -> Result<FirmPlan, NotADocument> {
    let plan = FirmPlan { leads_in_full: data.required("leads_in_full")? };
    data.end(plan)
}

fn brand(mut data: StrictObject) -> Result<(FirmBrand, Option<String>), NotADocument> {
    let brand = FirmBrand { color: data.optional("color")?, logo_url: data.optional("logo_url")? };
    let reply_to = checks::reply_to(data.optional("reply_to")?)?;
    data.end((checks::brand(brand)?, reply_to))
}

fn member_with_role(
    mut data: StrictObject,
    change: fn(MemberRole) -> MemberChange,
) -> Result<Activity, NotADocument> {
    let role = data.required("role")?;
    member(data, change(role))
}

fn member(mut data: StrictObject, change: MemberChange) -> Result<Activity, NotADocument> {
    let Id(member_id) = data.required("member_id")?;
    data.end(Activity::Member { member_id, change })
}

fn form(mut data: StrictObject, change: FormChange) -> Result<Activity, NotADocument> {
    let Id(form_id) = data.required("form_id")?;
    data.end(Activity::Form { form_id, change })
}

fn form_created(mut data: StrictObject) -> Result<Activity, NotADocument> {
    let details = FormDetails {
        title: checks::label("title", TITLE_MAX, data.required("title")?)?,
        slug: checks::slug(data.required("slug")?)?,
        url: checks::form_url(data.required("url")?)?,
        status: data.required("status")?,
        hidden_fields: checks::hidden_fields(data.required("hidden_fields")?)?,
        created_at: data.required("created_at")?,
    };
    form(data, FormChange::Created(details))
}

fn form_changed(mut data: StrictObject) -> Result<Activity, NotADocument> {
    let edit = FormEdit {
        title: checks::optional_label("title", TITLE_MAX, data.optional("title")?)?,
        slug: data.optional::<Option<_>>("slug")?.map(checks::slug).transpose()?,
        url: data.optional::<Option<_>>("url")?.map(checks::form_url).transpose()?,
        status: data.optional("status")?,
        hidden_fields: data
            .optional::<Option<_>>("hidden_fields")?
            .map(checks::hidden_fields)
            .transpose()?,
        created_at: data.optional("created_at")?,
    };
    form(data, FormChange::Changed(edit))
}

fn address(mut data: StrictObject, change: AddressChange) -> Result<Activity, NotADocument> {
    let email = cleaned_address(data.required("email")?);
    data.end(Activity::Address { email: checks::address("email", &email)?, change })
}

fn response(mut data: StrictObject, time: &'static str) -> Result<ResponseReport, NotADocument> {
    let Id(response_id) = data.required("response_id")?;
    let Id(form_id) = data.required("form_id")?;
    let at = data.required(time)?;
    let document = cleaned_response(ResponseDocument::read(data.0)?);
    Ok(ResponseReport { response_id, form_id, at, document })
}

fn report(mut data: StrictObject) -> Result<Activity, NotADocument> {
    let Id(response_id) = data.required("response_id")?;
    let Id(report_id) = data.required("report_id")?;
    let report = ReportDocument {
        id: report_id.into(),
        title: checks::label("title", TITLE_MAX, data.required("title")?)?,
        status: data.required("status")?,
        summary: data.optional("summary")?,
        highlights: data.optional("highlights")?,
        review_url: data.required("review_url")?,
        locked: data.optional("locked")?,
    };
    data.end(Activity::Report { response_id, report })
}

fn report_moment(mut data: StrictObject, moment: ReportMoment) -> Result<Activity, NotADocument> {
    let Id(report_id) = data.required("report_id")?;
    let at = data.required("at")?;
    data.end(Activity::ReportMoved { report_id, moment, at })
}

/// The paid amount is checked and not kept, because no payload shows it.
fn payment(mut data: StrictObject) -> Result<Activity, NotADocument> {
    let _: serde_json::Number = data.required("amount")?;
    let _: String = data.required("currency")?;
    let payment = Payment {
        payment_id: data.required::<Id>("payment_id")?.into(),
        response_id: data.required::<Id>("response_id")?.into(),
        report_id: data.optional::<Option<Id>>("report_id")?.map(Into::into),
        booking_id: data.optional::<Option<Id>>("booking_id")?.map(Into::into),
        at: data.required("at")?,
    };
    data.end(Activity::PaymentReceived(payment))
}

fn booking_made(mut data: StrictObject) -> Result<Activity, NotADocument> {
    let Id(response_id) = data.required("response_id")?;
    let Id(booking_id) = data.required("booking_id")?;
    let booking = Booking::read(booking_id.into(), &mut data)?;
    let title = checks::label("title", TITLE_MAX, booking.title)?;
    let invitee = cleaned_invitee(booking.invitee);
    let booking = Booking { title, invitee, ..booking };
    data.end(Activity::BookingMade { response_id, booking })
}

fn booking_moved(mut data: StrictObject) -> Result<Activity, NotADocument> {
    let moved = BookingMove {
        booking_id: data.required::<Id>("booking_id")?.into(),
        moved_at: data.required("moved_at")?,
        starts_at: data.required("starts_at")?,
        ends_at: data.required("ends_at")?,
        duration_min: data.required("duration_min")?,
        time_zone: data.required("time_zone")?,
    };
    data.end(Activity::BookingMoved(moved))
}

fn booking_cancelled(mut data: StrictObject) -> Result<Activity, NotADocument> {
    let Id(booking_id) = data.required("booking_id")?;
    data.end(Activity::BookingCancelled { booking_id })
}

fn lead(mut data: StrictObject) -> Result<Activity, NotADocument> {
    let _: serde_json::Number = data.required("score")?;
    let lead = LeadScore {
        person: checks::lead(cleaned_address(data.required("person")?))?,
        response_id: data.required::<Id>("response_id")?.into(),
        band: data.required::<LeadBand>("band")?,
    };
    data.end(Activity::LeadScored(lead))
}

fn response_erased(mut data: StrictObject) -> Result<Activity, NotADocument> {
    let Id(response_id) = data.required("response_id")?;
    data.end(Activity::ResponseErased { response_id })
}

fn person_erased(mut data: StrictObject) -> Result<Activity, NotADocument> {
    let email = checks::named_person(cleaned_address(data.required("email")?))?;
    data.end(Activity::PersonErased { email })
}
