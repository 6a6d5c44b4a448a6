//! The command at which a mail failed, and the meaning for the recipient.
//!
//! Only a permanent answer to `RCPT TO` that is about the recipient is a refusal (ruling 11). A
//! bounce stops all mail to a person, so an answer that may be about us is no refusal. Servers that
//! judge the client late give that judgement as the answer to `RCPT TO`. The enhanced code tells
//! the two apart (RFC 3463); without one the reply code does (RFC 5321, section 4.2.3; RFC 7504).

use std::error::Error as _;
use std::fmt;

use lettre::transport::smtp::Error;

use crate::names;
use crate::outcome::MailOutcome;

/// A server's last answer before it hangs up (RFC 5321, section 3.8).
const CODE_CLOSING: u16 = 421;

/// The step at which the mail failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SmtpStep {
    /// Before the first command.
    Connect,
    /// While encrypting.
    Encrypt,
    /// While signing in.
    SignIn,
    /// At `MAIL FROM`.
    Sender,
    /// At `RCPT TO`.
    Recipient,
    /// At `DATA`.
    Data,
    /// After `DATA`: the mail itself is on its way.
    Content,
}

/// Why a mail was not handed over.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SmtpFailure {
    /// The step.
    pub(super) step: SmtpStep,
    cause: FailureCause,
}

#[derive(Debug, PartialEq, Eq)]
enum FailureCause {
    /// The server refused.
    Answer(SmtpReply),
    /// The server was not reached, failed its proof, or broke off. The words name no person.
    Broken(Option<String>),
    /// The server sent an impossible answer.
    Nonsense,
}

/// A negative answer. The rest of its text may name the person and is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct SmtpReply {
    code: u16,
    enhanced: Option<[u16; 3]>,
}

impl SmtpFailure {
    pub(super) fn new(step: SmtpStep, error: &Error) -> Self {
        let cause = match error.status() {
            Some(code) => FailureCause::Answer(SmtpReply::new(code.into(), error)),
            None => FailureCause::Broken(step.is_impersonal().then(|| error.to_string())),
        };
        Self { step, cause }
    }

    /// The server was not reached, or broke off before it heard anything personal.
    pub(super) fn broken(step: SmtpStep, error: &impl fmt::Display) -> Self {
        Self { step, cause: FailureCause::Broken(Some(error.to_string())) }
    }

    /// The server refused with this code and text.
    pub(super) fn refused(step: SmtpStep, code: u16, text: &str) -> Self {
        let reply = SmtpReply { code, enhanced: enhanced_code(text) };
        Self { step, cause: FailureCause::Answer(reply) }
    }

    pub(super) const fn unreadable_answer(step: SmtpStep) -> Self {
        Self { step, cause: FailureCause::Nonsense }
    }

    /// Whether the connection can still be used.
    pub(super) fn leaves_connection(&self) -> bool {
        matches!(self.cause, FailureCause::Answer(SmtpReply { code, .. }) if code != CODE_CLOSING)
    }

    /// Whether the server closed the connection before it took anything of the mail.
    pub(super) fn is_farewell(&self) -> bool {
        self.step == SmtpStep::Sender && !self.leaves_connection()
    }
}

impl From<SmtpFailure> for MailOutcome {
    fn from(trouble: SmtpFailure) -> Self {
        match (trouble.step, &trouble.cause) {
            (SmtpStep::Recipient, FailureCause::Answer(reply)) if reply.refuses_the_recipient() => {
                Self::Refused { code: Some(reply.code) }
            }
            _ => Self::Failed(trouble.to_string()),
        }
    }
}

impl SmtpStep {
    /// Whether no part of a mail or a password has been sent yet.
    fn is_impersonal(self) -> bool {
        matches!(self, Self::Connect | Self::Encrypt)
    }
}

impl SmtpReply {
    fn new(code: u16, error: &Error) -> Self {
        let text = error.source().map(ToString::to_string);
        Self { code, enhanced: text.as_deref().and_then(enhanced_code) }
    }

    /// Addressing and mailbox (RFC 3463, sections 3.2 and 3.3), without the codes about the
    /// sender's address (5.1.7, 5.1.8). Without an enhanced code these refuse: no such mailbox,
    /// moved away, not a name, a domain without mail. 552 does not: it means too many recipients
    /// (RFC 5321, section 4.5.3.1.10). 554 can mean anything, and does not.
    fn refuses_the_recipient(self) -> bool {
        match (self.code, self.enhanced) {
            (500..=599, Some([5, 1, 7 | 8])) => false,
            (500..=599, Some([class, subject, _])) => class == 5 && matches!(subject, 1 | 2),
            (code, None) => matches!(code, 550 | 551 | 553 | 556),
            _ => false,
        }
    }
}

/// Reads `class.subject.detail` at the start of a reply's text (RFC 2034, section 4).
fn enhanced_code(text: &str) -> Option<[u16; 3]> {
    let mut numbers = text.split_whitespace().next()?.splitn(3, '.').map(str::parse);
    let mut next = || numbers.next()?.ok();
    Some([next()?, next()?, next()?])
}

impl fmt::Display for SmtpFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.step)?;
        match &self.cause {
            FailureCause::Answer(SmtpReply { code, enhanced: None }) => write!(f, "{code}"),
            FailureCause::Answer(SmtpReply { code, enhanced: Some([class, subject, detail]) }) => {
                write!(f, "{code} {class}.{subject}.{detail}")
            }
            FailureCause::Broken(words) => {
                let words = words.as_deref().and_then(names::one_line);
                f.write_str(words.as_deref().unwrap_or("the server broke off"))
            }
            FailureCause::Nonsense => f.write_str("not an answer"),
        }
    }
}

impl fmt::Display for SmtpStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Connect => "connect",
            Self::Encrypt => "starttls",
            Self::SignIn => "auth",
            Self::Sender => "mail from",
            Self::Recipient => "rcpt to",
            Self::Data => "data",
            Self::Content => "content",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rstest::rstest;

    fn at(step: SmtpStep, code: u16, text: &str) -> MailOutcome {
        let reply = SmtpReply { code, enhanced: enhanced_code(text) };
        SmtpFailure { step, cause: FailureCause::Answer(reply) }.into()
    }

    #[rstest]
    #[case(550, "5.1.1 <ann@example.com> does not exist")]
    #[case(550, "no such user here")]
    #[case(550, "5.2.1 mailbox disabled")]
    #[case(551, "user not local")]
    #[case(552, "5.2.2 mailbox full")]
    #[case(553, "5.1.3 not an address")]
    #[case(553, "")]
    #[case(554, "5.1.0 rejected")]
    #[case(556, "5.1.10 null mx")]
    #[case(556, "domain takes no mail")]
    fn p15_a_recipients_refusal_is_final(#[case] code: u16, #[case] text: &str) {
        assert_eq!(at(SmtpStep::Recipient, code, text), MailOutcome::Refused { code: Some(code) });
        let before = [SmtpStep::Connect, SmtpStep::Encrypt, SmtpStep::SignIn, SmtpStep::Sender];
        for step in before.into_iter().chain([SmtpStep::Data, SmtpStep::Content]) {
            assert!(matches!(at(step, code, text), MailOutcome::Failed(_)), "{step}");
        }
    }

    #[rstest]
    #[case(450, "4.1.1 greylisted")]
    #[case(450, "5.1.1 of two minds")]
    #[case(421, "")]
    #[case(503, "5.5.1 bad sequence")]
    #[case(530, "5.7.0 authentication required")]
    #[case(550, "5.7.1 relaying denied")]
    #[case(550, "4.1.1 of two minds")]
    #[case(550, "5.1.8 sender's domain not found")]
    #[case(550, "5.1.7 sender's address")]
    #[case(552, "too many recipients")]
    #[case(554, "no")]
    #[case(554, "5.7.1 blocked by a list")]
    fn p15_our_own_refusal_is_a_failure(#[case] code: u16, #[case] text: &str) {
        let MailOutcome::Failed(why) = at(SmtpStep::Recipient, code, text) else {
            panic!("{code} {text}")
        };
        assert!(why.starts_with(&format!("rcpt to: {code}")), "{why}");
    }

    #[rstest]
    #[case("5.1.1", Some([5, 1, 1]))]
    #[case("5.7.13 x", Some([5, 7, 13]))]
    #[case("5.1.1.1", None)]
    #[case("5.1", None)]
    #[case("5.1.x", None)]
    #[case("5.99999.1", None)]
    #[case("no 5.1.1", None)]
    #[case("", None)]
    fn enhanced_codes_stand_at_the_start(#[case] text: &str, #[case] expected: Option<[u16; 3]>) {
        assert_eq!(enhanced_code(text), expected);
    }
}
