//! The faults that the proof finds.

use uuid::Uuid;

/// A fault of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeliveryFault {
    /// The match saw the subscription live, and the occurrence does not list it.
    Missing,
    /// The match missed a change of the firm's subscriptions that was committed long before.
    Unseen,
    /// The delivery has another id than the rule gives to its occurrence and subscription.
    Second,
    /// The delivery succeeded this many times.
    Successes(u32),
    /// The delivery had more attempts than allowed: the number made, and the number allowed.
    Tries(u32, u32),
    /// A replay attempted the delivery more than once, or was never ordered.
    Replay(Uuid),
    /// The delivery was attempted or cancelled after its end.
    AfterTheEnd,
    /// The delivery has ended and is still queued.
    StillQueued,
    /// The delivery's occurrence is not in the log.
    OfNothing,
    /// The occurrence does not list the delivery's subscription, or should not.
    ToNobody,
    /// The delivery is queued and the log does not know it.
    Unknown,
    /// The delivery waits for an attempt and is not queued, so nobody will send it.
    Lost,
    /// A replay says that the delivery is queued, and it is not, so nobody will send it.
    ReplayLost(Uuid),
}

/// Kinds of faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DeliveryFaultKind {
    /// A subscription misses an occurrence.
    Missing,
    /// A subscription gets an occurrence more than once, or may get it more than once.
    Doubled,
    /// The delivery belongs to no occurrence or to no subscription.
    Orphaned,
    /// The delivery waits for an attempt that nobody will make.
    Lost,
}

impl DeliveryFaultKind {
    /// All kinds.
    pub const ALL: [Self; 4] = [Self::Missing, Self::Doubled, Self::Orphaned, Self::Lost];

    /// The kind's word in the output.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Missing => "missing",
            Self::Doubled => "doubled",
            Self::Orphaned => "orphaned",
            Self::Lost => "lost",
        }
    }
}

impl DeliveryFault {
    /// The fault's kind.
    #[must_use]
    pub const fn kind(self) -> DeliveryFaultKind {
        match self {
            Self::Missing | Self::Unseen => DeliveryFaultKind::Missing,
            Self::Second
            | Self::Successes(_)
            | Self::Tries(..)
            | Self::Replay(_)
            | Self::AfterTheEnd
            | Self::StillQueued => DeliveryFaultKind::Doubled,
            Self::OfNothing | Self::ToNobody | Self::Unknown => DeliveryFaultKind::Orphaned,
            Self::Lost | Self::ReplayLost(_) => DeliveryFaultKind::Lost,
        }
    }
}

impl std::fmt::Display for DeliveryFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Missing => f.write_str("the match saw the subscription and does not list it"),
            Self::Unseen => f.write_str("the match missed a change of the firm's subscriptions"),
            Self::Second => f.write_str("a second delivery of one occurrence to one subscription"),
            Self::Successes(times) => write!(f, "it succeeded {times} times"),
            Self::Tries(made, allowed) => write!(f, "{made} tries, of {allowed} at most"),
            Self::Replay(id) => write!(f, "a try of replay {id} that the replay did not order"),
            Self::AfterTheEnd => f.write_str("something follows its end"),
            Self::StillQueued => f.write_str("it has ended and is queued all the same"),
            Self::OfNothing => f.write_str("its occurrence is not in the log"),
            Self::ToNobody => f.write_str("its subscription should not get it"),
            Self::Unknown => f.write_str("it is queued and the log lists no such delivery"),
            Self::Lost => f.write_str("it waits for a try and is not queued"),
            Self::ReplayLost(id) => write!(f, "replay {id} has queued it, and it is not queued"),
        }
    }
}
