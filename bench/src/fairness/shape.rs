//! The shapes of load that stand beside the measured firms.

use clap::ValueEnum;

use super::hogs::HogShape;
use super::outage::OutageShape;
use crate::hosts::Manner;

/// A shape by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum ShapeName {
    /// One of eleven receivers never answers.
    #[value(name = "silent-1-of-11")]
    OneOfEleven,
    /// One firm with 100 silent hosts, and 10,000 deliveries stuck.
    OneFirm,
    /// Ten firms with a silent host each, and 10,000 deliveries stuck.
    TenFirms,
    /// 300 firms with 15 deliveries each to one host that never answers.
    #[value(name = "silent-1")]
    SilentOne,
    /// As many deliveries to two silent hosts.
    #[value(name = "silent-2")]
    SilentTwo,
    /// As many deliveries to ten silent hosts.
    #[value(name = "silent-10")]
    SilentTen,
    /// As many deliveries to one host that has answered and falls silent.
    #[value(name = "turning-1")]
    TurningOne,
    /// As many deliveries to two hosts that have answered and fall silent together.
    #[value(name = "turning-2")]
    TurningTwo,
    /// As many deliveries to one host that answers after 9 s.
    #[value(name = "slow-9s")]
    Slow,
    /// As many deliveries to one host that answers 500 at once.
    #[value(name = "refusing")]
    Refusing,
    /// 50,000 hosts with one retry each.
    Sleeping,
    /// 50,000 hosts with one retry each, behind 2,000 due lanes of a silent host.
    #[value(name = "sleeping-behind-silent")]
    SleepingBehindSilent,
    /// All receivers are silent for a time, and back.
    #[value(name = "silent-and-back")]
    SilentAndBack,
    /// All receivers close connections for a time, and are back.
    #[value(name = "down-and-back")]
    DownAndBack,
}

/// Its two kinds.
pub(super) enum Shape {
    Hogs(HogShape),
    Outage(OutageShape),
}

/// 300 firms at one silent host: the other shapes differ from it.
const MANY: HogShape = HogShape {
    name: "",
    firms: 300,
    hosts: 1,
    network: 0,
    manner: Manner::Silent,
    answers_first: false,
    hooks: 300,
    stuck: 300 * 15,
    more_per_second: 20,
    sleeping_hosts: 0,
};

/// The silent receiver gets as much as each of the others.
const ONE_OF_ELEVEN: HogShape = HogShape {
    name: "1 of 11 silent",
    firms: 1,
    network: 2,
    hooks: 1,
    stuck: 60,
    more_per_second: 6,
    ..MANY
};

const ONE_FIRM: HogShape = HogShape {
    name: "one firm, 100 silent hosts",
    firms: 1,
    hosts: 100,
    network: 3,
    hooks: 100,
    stuck: 10_000,
    more_per_second: 100,
    ..MANY
};

const TEN_FIRMS: HogShape = HogShape {
    name: "ten firms, 10 silent hosts",
    firms: 10,
    hosts: 10,
    network: 4,
    hooks: 100,
    stuck: 10_000,
    more_per_second: 100,
    ..MANY
};

const SILENT_ONE: HogShape = HogShape { name: "300 firms, 1 silent host", network: 5, ..MANY };

const SILENT_TWO: HogShape =
    HogShape { name: "300 firms, 2 silent hosts", network: 6, hosts: 2, ..MANY };

const SILENT_TEN: HogShape =
    HogShape { name: "300 firms, 10 silent hosts", network: 7, hosts: 10, ..MANY };

const TURNING_ONE: HogShape =
    HogShape { name: "300 firms, 1 host falls silent", network: 14, answers_first: true, ..MANY };

const TURNING_TWO: HogShape = HogShape {
    name: "300 firms, 2 hosts fall silent",
    network: 15,
    hosts: 2,
    answers_first: true,
    ..MANY
};

const SLOW: HogShape =
    HogShape { name: "300 firms, answers after 9 s", network: 8, manner: Manner::Slow, ..MANY };

const REFUSING: HogShape =
    HogShape { name: "300 firms, answers 500", network: 9, manner: Manner::Refusing, ..MANY };

const SLEEPING: HogShape = HogShape {
    name: "50,000 hosts with a retry",
    firms: 0,
    network: 10,
    hooks: 0,
    stuck: 0,
    more_per_second: 0,
    sleeping_hosts: 50_000,
    ..MANY
};

const SLEEPING_BEHIND_SILENT: HogShape = HogShape {
    name: "these behind a silent host",
    firms: 20,
    network: 11,
    hooks: 2_000,
    stuck: 2_000,
    more_per_second: 0,
    sleeping_hosts: 50_000,
    ..MANY
};

impl ShapeName {
    pub(super) const fn shape(self) -> Shape {
        Shape::Hogs(match self {
            Self::OneOfEleven => ONE_OF_ELEVEN,
            Self::OneFirm => ONE_FIRM,
            Self::TenFirms => TEN_FIRMS,
            Self::SilentOne => SILENT_ONE,
            Self::SilentTwo => SILENT_TWO,
            Self::SilentTen => SILENT_TEN,
            Self::TurningOne => TURNING_ONE,
            Self::TurningTwo => TURNING_TWO,
            Self::Slow => SLOW,
            Self::Refusing => REFUSING,
            Self::Sleeping => SLEEPING,
            Self::SleepingBehindSilent => SLEEPING_BEHIND_SILENT,
            Self::SilentAndBack => {
                return Shape::Outage(OutageShape {
                    name: "all silent, and back",
                    network: 12,
                    manner: Manner::Silent,
                });
            }
            Self::DownAndBack => {
                return Shape::Outage(OutageShape {
                    name: "all down, and back",
                    network: 13,
                    manner: Manner::Down,
                });
            }
        })
    }
}
