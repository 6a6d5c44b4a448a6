//! One look at the figures, read as strictly as Prometheus' own checker does.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use crate::process::get;

/// The figures of a service at one moment.
#[derive(Debug)]
pub struct Scrape {
    /// The answer's text.
    pub text: String,
    /// The value of each series, by all of its name: `a_total{b="c"}`.
    pub series: BTreeMap<String, f64>,
}

impl Scrape {
    /// The figures of this door now.
    pub async fn new(door: SocketAddr) -> Self {
        let (status, answer) = get(door, "/metrics").await;
        assert_eq!(status, 200, "{answer}");
        let (head, text) = answer.split_once("\r\n\r\n").unwrap();
        let head = head.to_ascii_lowercase();
        assert!(head.contains("content-type: text/plain; version=0.0.4; charset=utf-8"), "{head}");
        Self { series: series(text), text: text.to_owned() }
    }

    /// Scrapes until this holds.
    pub async fn until(door: SocketAddr, holds: impl Fn(&Self) -> bool) -> Self {
        let looked = async {
            loop {
                let scrape = Self::new(door).await;
                if holds(&scrape) {
                    return scrape;
                }
            }
        };
        tokio::time::timeout(Duration::from_secs(60), looked).await.expect("it shows")
    }

    /// The value of a series; 0 if there is none.
    pub fn value(&self, series: &str) -> f64 {
        self.series.get(series).copied().unwrap_or_default()
    }

    /// The names of the figures.
    pub fn figures(&self) -> Vec<&str> {
        self.text
            .lines()
            .filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next())
            .collect()
    }
}

/// Every sample belongs to a figure that was described and typed before it, and is there once.
fn series(text: &str) -> BTreeMap<String, f64> {
    let mut series = BTreeMap::new();
    let (mut described, mut typed) = (String::new(), (String::new(), String::new()));
    for line in text.lines().filter(|line| !line.is_empty()) {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, help) = help.split_once(' ').expect("a help");
            assert!(help.len() > 2, "{line}");
            described = name.to_owned();
        } else if let Some(of) = line.strip_prefix("# TYPE ") {
            let (name, kind) = of.split_once(' ').unwrap();
            assert_eq!(name, described, "{line}");
            typed = (name.to_owned(), kind.to_owned());
        } else {
            let (name, value) = line.rsplit_once(' ').unwrap();
            let bare = name.split('{').next().unwrap();
            let (of, kind) = (&typed.0, typed.1.as_str());
            let parts = ["_bucket", "_sum", "_count"].map(|part| format!("{of}{part}"));
            assert_ne!(kind, "summary", "{line}");
            let belongs =
                if kind == "histogram" { parts.iter().any(|p| p == bare) } else { of == bare };
            assert!(belongs, "{line} after {of} {kind}");
            let twice = series.insert(name.to_owned(), value.parse().unwrap());
            assert_eq!(twice, None, "{line}");
        }
    }
    series
}
