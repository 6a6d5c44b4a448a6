//! The result of an invite, and the reasons to send no mail.

use projector::firms::MailSenderRow;
use projector::people::PersonRow;
use uuid::Uuid;

/// The result of an invite (contract, section FormInvite).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InviteOutcome {
    /// The mail server accepted the mail.
    Sent {
        /// The mail's id, a part of the Message-ID.
        email_id: Uuid,
    },
    /// No mail was sent, and a repeated call would send none.
    Skipped(InviteSkip),
}

/// Why no mail was sent (ruling 11).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InviteSkip {
    /// The person unsubscribed from this firm's mail.
    Unsubscribed,
    /// A mail server refused the address for good.
    Bounced,
    /// The firm does not send invites.
    SwitchedOff,
    /// The person got this form today.
    AlreadySentToday,
}

impl InviteSkip {
    /// The value of `reason` in the answer.
    #[must_use]
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Unsubscribed => "unsubscribed",
            Self::Bounced => "bounced",
            Self::SwitchedOff => "switched_off",
            Self::AlreadySentToday => "already_sent_today",
        }
    }

    /// The reason not to write a mail at all, if there is one.
    pub(crate) const fn new(person: PersonRow, sender: &MailSenderRow) -> Option<Self> {
        match (person.unsubscribed, person.bounced, sender.invites_enabled) {
            (true, _, _) => Some(Self::Unsubscribed),
            (false, true, _) => Some(Self::Bounced),
            (false, false, false) => Some(Self::SwitchedOff),
            (false, false, true) => None,
        }
    }
}
