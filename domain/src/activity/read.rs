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
            "firm.suspended" => data.end_with(firm_activity(FirmChange::Suspended))?,
            "firm.resumed" => data.end_with(firm_activity(FirmChange::Resumed))?,
            "firm.closed" => data.end_with(firm_activity(FirmChange::Closed))?,
            "member.joined" => member_with_role(data, MemberChange::Joined)?,
            "member.role_changed" => member_with_role(data, MemberChange::RoleChanged)?,
            "member.disabled" => read_member(data, MemberChange::Disabled)?,
            "member.enabled" => read_member(data, MemberChange::Enabled)?,
            "member.left" => read_member(data, MemberChange::Left)?,
            "form.created" => form_created(data)?,
            "form.changed" => form_changed(data)?,
            "form.published" => read_form(data, FormChange::Published)?,
            "form.unpublished" => read_form(data, FormChange::Unpublished)?,
            "form.deleted" => read_form(data, FormChange::Deleted)?,
            "address.unsubscribed" => read_address(data, AddressChange::Unsubscribed)?,
            "address.bounced" => read_address(data, AddressChange::Bounced)?,
            "address.restored" => read_address(data, AddressChange::Restored)?,
            "response.saved" => Self::ResponseSaved(read_response(data, "saved_at")?),
            "response.submitted" => Self::ResponseSubmitted(read_response(data, "submitted_at")?),
            "report.created" | "report.changed" => read_report(data)?,
            "report.approved" => report_moment(data, ReportMoment::Approved)?,
            "report.sent" => report_moment(data, ReportMoment::Sent)?,
            "report.opened" => report_moment(data, ReportMoment::Opened)?,
            "payment.received" => read_payment(data)?,
            "booking.made" => booking_made(data)?,
            "booking.rescheduled" => booking_moved(data)?,
            "booking.cancelled" => booking_cancelled(data)?,
            "lead.scored" => read_lead(data)?,
            "response.erased" => response_erased(data)?,
            "person.erased" => person_erased(data)?,
            _ => return Err(NotAnActivity::UnknownType),
        })
    }
}

const fn firm_activity(change: FirmChange) -> Activity {
    Activity::Firm { change, reply_to: None }
}

fn firm_opened(mut data: StrictObject) -> Result<Activity, NotADocument> {
    let (brand, reply_to) = data.optional_part("brand", read_brand)?.unwrap_or_default();
    let change = FirmChange::Opened {
        name: checks::checked_label("name", FIRM_NAME_MAX, data.required_field("name")?)?,
        plan: data.required_part("plan", read_plan)?,
        brand,
    };
    data.end_with(Activity::Firm { change, reply_to: Some(reply_to) })
}

fn firm_changed(mut data: StrictObject) -> Result<Activity, NotADocument> {
    let (brand, reply_to) = data.optional_part("brand", read_brand)?.unzip();
    let change = FirmChange::Changed {
        name: checks::optional_label("name", FIRM_NAME_MAX, data.optional_field("name")?)?,
        plan: data.optional_part("plan", read_plan)?,
        brand,
        invites_enabled: data.optional_field("invites_enabled")?,
        notices: data.optional_part("notices", read_notices)?.unwrap_or_default(),
    };
    data.end_with(Activity::Firm { change, reply_to })
}

fn read_notices(mut data: StrictObject) -> Result<NoticeChange, NotADocument> {
    let change =
        NoticeChange { lang: data.optional_field("lang")?, mail: data.optional_field("mail")? };
    data.end_with(change)
}

fn read_plan(mut data: StrictObject) -> Result<FirmPlan, NotADocument> {
    let plan = FirmPlan { leads_in_full: data.required_field("leads_in_full")? };
    data.end_with(plan)
}

fn read_brand(mut data: StrictObject) -> Result<(FirmBrand, Option<String>), NotADocument> {
    let brand = FirmBrand {
        color: data.optional_field("color")?,
        logo_url: data.optional_field("logo_url")?,
    };
    let reply_to = checks::reply_to(data.optional_field("reply_to")?)?;
    data.end_with((checks::checked_brand(brand)?, reply_to))
}

fn member_with_role(
    mut data: StrictObject,
    change: fn(MemberRole) -> MemberChange,
) -> Result<Activity, NotADocument> {
    let role = data.required_field("role")?;
    read_member(data, change(role))
}

fn read_member(mut data: StrictObject, change: MemberChange) -> Result<Activity, NotADocument> {
    let Id(member_id) = data.required_field("member_id")?;
    data.end_with(Activity::Member { member_id, change })
}

fn read_form(mut data: StrictObject, change: FormChange) -> Result<Activity, NotADocument> {
    let Id(form_id) = data.required_field("form_id")?;
    data.end_with(Activity::Form { form_id, change })
}

fn form_created(mut data: StrictObject) -> Result<Activity, NotADocument> {
    let details = FormDetails {
        title: checks::checked_label("title", TITLE_MAX, data.required_field("title")?)?,
        slug: checks::checked_slug(data.required_field("slug")?)?,
        url: checks::form_url(data.required_field("url")?)?,
        status: data.required_field("status")?,
        hidden_fields: checks::hidden_fields(data.required_field("hidden_fields")?)?,
        created_at: data.required_field("created_at")?,
    };
    read_form(data, FormChange::Created(details))
}

fn form_changed(mut data: StrictObject) -> Result<Activity, NotADocument> {
    let edit = FormEdit {
        title: checks::optional_label("title", TITLE_MAX, data.optional_field("title")?)?,
        slug: data.optional_field::<Option<_>>("slug")?.map(checks::checked_slug).transpose()?,
        url: data.optional_field::<Option<_>>("url")?.map(checks::form_url).transpose()?,
        status: data.optional_field("status")?,
        hidden_fields: data
            .optional_field::<Option<_>>("hidden_fields")?
            .map(checks::hidden_fields)
            .transpose()?,
        created_at: data.optional_field("created_at")?,
    };
    read_form(data, FormChange::Changed(edit))
}

fn read_address(mut data: StrictObject, change: AddressChange) -> Result<Activity, NotADocument> {
    let email = cleaned_address(data.required_field("email")?);
    data.end_with(Activity::Address { email: checks::checked_address("email", &email)?, change })
}

fn read_response(
    mut data: StrictObject,
    time: &'static str,
) -> Result<ResponseReport, NotADocument> {
    let Id(response_id) = data.required_field("response_id")?;
    let Id(form_id) = data.required_field("form_id")?;
    let at = data.required_field(time)?;
    let document = cleaned_response(ResponseDocument::read(data.0)?);
    Ok(ResponseReport { response_id, form_id, at, document })
}

fn read_report(mut data: StrictObject) -> Result<Activity, NotADocument> {
    let Id(response_id) = data.required_field("response_id")?;
    let Id(report_id) = data.required_field("report_id")?;
    let report = ReportDocument {
        id: report_id.into(),
        title: checks::checked_label("title", TITLE_MAX, data.required_field("title")?)?,
        status: data.required_field("status")?,
        summary: data.optional_field("summary")?,
        highlights: data.optional_field("highlights")?,
        review_url: data.required_field("review_url")?,
        locked: data.optional_field("locked")?,
    };
    data.end_with(Activity::Report { response_id, report })
}

fn report_moment(mut data: StrictObject, moment: ReportMoment) -> Result<Activity, NotADocument> {
    let Id(report_id) = data.required_field("report_id")?;
    let at = data.required_field("at")?;
    data.end_with(Activity::ReportMoved { report_id, moment, at })
}

/// The paid amount is checked and not kept, because no payload shows it.
fn read_payment(mut data: StrictObject) -> Result<Activity, NotADocument> {
    let _: serde_json::Number = data.required_field("amount")?;
    let _: String = data.required_field("currency")?;
    let payment = Payment {
        payment_id: data.required_field::<Id>("payment_id")?.into(),
        response_id: data.required_field::<Id>("response_id")?.into(),
        report_id: data.optional_field::<Option<Id>>("report_id")?.map(Into::into),
        booking_id: data.optional_field::<Option<Id>>("booking_id")?.map(Into::into),
        at: data.required_field("at")?,
    };
    data.end_with(Activity::PaymentReceived(payment))
}

fn booking_made(mut data: StrictObject) -> Result<Activity, NotADocument> {
    let Id(response_id) = data.required_field("response_id")?;
    let Id(booking_id) = data.required_field("booking_id")?;
    let booking = Booking::read(booking_id.into(), &mut data)?;
    let title = checks::checked_label("title", TITLE_MAX, booking.title)?;
    let invitee = cleaned_invitee(booking.invitee);
    let booking = Booking { title, invitee, ..booking };
    data.end_with(Activity::BookingMade { response_id, booking })
}

fn booking_moved(mut data: StrictObject) -> Result<Activity, NotADocument> {
    let moved = BookingMove {
        booking_id: data.required_field::<Id>("booking_id")?.into(),
        moved_at: data.required_field("moved_at")?,
        starts_at: data.required_field("starts_at")?,
        ends_at: data.required_field("ends_at")?,
        duration_min: data.required_field("duration_min")?,
        time_zone: data.required_field("time_zone")?,
    };
    data.end_with(Activity::BookingMoved(moved))
}

fn booking_cancelled(mut data: StrictObject) -> Result<Activity, NotADocument> {
    let Id(booking_id) = data.required_field("booking_id")?;
    data.end_with(Activity::BookingCancelled { booking_id })
}

fn read_lead(mut data: StrictObject) -> Result<Activity, NotADocument> {
    let _: serde_json::Number = data.required_field("score")?;
    let lead = LeadScore {
        person: checks::checked_lead(cleaned_address(data.required_field("person")?))?,
        response_id: data.required_field::<Id>("response_id")?.into(),
        band: data.required_field::<LeadBand>("band")?,
    };
    data.end_with(Activity::LeadScored(lead))
}

fn response_erased(mut data: StrictObject) -> Result<Activity, NotADocument> {
    let Id(response_id) = data.required_field("response_id")?;
    data.end_with(Activity::ResponseErased { response_id })
}

fn person_erased(mut data: StrictObject) -> Result<Activity, NotADocument> {
    let email = checks::named_person(cleaned_address(data.required_field("email")?))?;
    data.end_with(Activity::PersonErased { email })
}
