//! A page for people about one bundle: what it holds, and how to verify it. The page is one file of
//! HTML, without scripts and without anything from elsewhere.

use domain::audit::{EntryTime, ProvedPeriod};
use domain::values::Timestamp;

use crate::bundle::BundleSummary;

/// The content of a cover beside the bundle itself.
#[derive(Debug, Clone, Copy)]
pub struct CoverPage<'a> {
    /// The bundle.
    pub bundle: &'a BundleSummary,
    /// The name of the bundle's file.
    pub file: &'a str,
    /// The firm's name now, if it has one.
    pub firm_name: Option<&'a str>,
    /// The time of the page.
    pub made_at: Timestamp,
}

const STYLE: &str = "\
body{font:16px/1.5 system-ui,sans-serif;max-width:46rem;margin:2rem auto;padding:0 1rem;color:#111}\
h1{font-size:1.6rem;margin:0 0 .2rem}h2{font-size:1.1rem;margin:1.6rem 0 .4rem}\
table{border-collapse:collapse;width:100%}th,td{text-align:left;vertical-align:top;padding:.25rem \
.6rem .25rem 0;border-bottom:1px solid #ccc;overflow-wrap:anywhere}th{width:12rem;font-weight:600}\
code,pre{font:14px/1.5 ui-monospace,monospace;overflow-wrap:anywhere;white-space:pre-wrap}\
@media print{body{margin:0;max-width:none;font-size:11pt}h2,tr{break-inside:avoid}}\
@page{margin:2cm}";

impl CoverPage<'_> {
    /// The page.
    #[must_use]
    pub fn html(&self) -> String {
        let Self { bundle, file, firm_name, made_at } = self;
        let said = &bundle.signed.checkpoint;
        let firm = firm_name.map_or_else(|| bundle.firm_id.to_string(), str::to_owned);
        let title = format!("Audit log of {firm}");
        let rows = [
            ("Firm", firm_name.map_or_else(|| "without a name".to_owned(), str::to_owned)),
            ("Firm's id", bundle.firm_id.to_string()),
            ("Period", period_text(&bundle.proved)),
            ("Entries in the period", bundle.proved.entries.to_string()),
            (
                "Entry before the period",
                neighbour_text(bundle.proved.before, "none: the log begins here"),
            ),
            ("Entry after the period", neighbour_text(bundle.proved.after, &last_signed(bundle))),
            (
                "Entries in the file",
                format!("{} to {} of {} that were signed", bundle.first, bundle.last, bundle.of),
            ),
            ("File", (*file).to_owned()),
            ("SHA-256 of the file", hex::encode(bundle.sha256)),
            (
                "Signed checkpoint",
                format!("{} of {}, up to position {}", said.number, said.at, said.position),
            ),
            ("Id of its key", said.key_id.clone()),
            ("Its public key", bundle.signed.public_key.clone()),
            ("Page made at", made_at.to_string()),
        ];
        let facts: String = rows.iter().map(|(name, value)| table_row(name, value)).collect();
        let counts: String = match bundle.actions.is_empty() {
            true if bundle.proved.is_open() => {
                "<p>No entries in this period up to the signed checkpoint.</p>".to_owned()
            }
            true => "<p>No entries in this period.</p>".to_owned(),
            false => {
                let rows = bundle.actions.iter();
                let rows: String =
                    rows.map(|(name, count)| table_row(name, &count.to_string())).collect();
                format!("<table>{rows}</table>")
            }
        };
        format!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width\">\
             <title>{title}</title><style>{STYLE}</style></head><body>\n\
             <h1>{title}</h1>\n<p>This page describes a file. The file is the proof; \
             the page proves nothing.</p>\n<table>{facts}</table>\n<h2>Entries by action</h2>\n{counts}\n{verify}\
             </body></html>\n",
            title = escape_html(&title),
            verify = how_to_verify(file),
        )
    }
}

fn how_to_verify(file: &str) -> String {
    let quoted = format!("'{}'", file.replace('\'', "'\\''"));
    format!(
        "<h2>How to verify</h2>\n<ol>\
         <li>Compare the file with this page: <pre>sha256sum {file}</pre></li>\
         <li>Get the service's public keys on another way than this page and this file, and write \
         them to a file, one per line.</li>\
         <li>Verify. Neither database nor network is needed: \
         <pre>firmforms audit verify --bundle {file} --public-keys keys.txt</pre></li>\
         <li>Compare firm, period and the number of entries with the answer.</li></ol>\n\
         <p>The proof covers the order and the content of entries up to the signed checkpoint. It \
         does not show that a reported activity was true, nor that the service's clock was right.</p>\n",
        file = escape_html(&quoted),
    )
}

fn period_text(proved: &ProvedPeriod) -> String {
    match (proved.period.since, proved.period.until) {
        (None, None) => "all entries".to_owned(),
        (Some(since), None) => format!("from {since} on"),
        (None, Some(until)) => format!("before {until}"),
        (Some(since), Some(until)) => format!("from {since}, before {until}"),
    }
}

fn neighbour_text(entry: Option<EntryTime>, missing: &str) -> String {
    entry.map_or_else(|| missing.to_owned(), |entry| format!("{} of {}", entry.sequence, entry.at))
}

fn last_signed(bundle: &BundleSummary) -> String {
    format!("none: entry {} is the last that was signed; later ones are not covered", bundle.of)
}

fn table_row(name: &str, value: &str) -> String {
    format!("<tr><th>{}</th><td>{}</td></tr>\n", escape_html(name), escape_html(value))
}

/// A text that is no markup, in content and in attributes.
fn escape_html(text: &str) -> String {
    let printable = domain::values::printable_text(text);
    let mut safe = String::with_capacity(printable.len());
    for char in printable.chars() {
        match char {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            other => safe.push(other),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use domain::audit::{AuditCheckpoint, AuditPeriod, OpenBlock};
    use uuid::Uuid;

    use super::*;
    use crate::checkpoints::SignedCheckpoint;

    fn at(day: u32) -> Timestamp {
        format!("2026-03-{day:02}T00:00:00Z").parse().unwrap()
    }

    fn bundle(actions: &[(&str, u64)]) -> BundleSummary {
        let period = AuditPeriod::between(Some(at(1)), Some(at(31))).unwrap();
        let checkpoint = AuditCheckpoint {
            v: 1,
            number: 7,
            at: at(31),
            position: 99,
            firms: 1,
            heads: [0; 32],
            seals: 0,
            sealed: [0; 32],
            open: OpenBlock { events: 0, root: [0; 32] },
            previous: [0; 32],
            key_id: "0123456789abcdef".into(),
            installation_id: None,
        };
        BundleSummary {
            firm_id: Uuid::from_u128(1),
            first: 4,
            last: 9,
            proved: ProvedPeriod {
                period,
                entries: actions.iter().map(|(_, count)| count).sum(),
                before: Some(EntryTime { sequence: 4, at: at(1) }),
                after: None,
            },
            actions: actions.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect(),
            sha256: [0xab; 32],
            of: 9,
            signed: SignedCheckpoint {
                checkpoint,
                public_key: "cd".repeat(32),
                signature: String::new(),
            },
        }
    }

    fn page(bundle: &BundleSummary, firm_name: Option<&str>, file: &str) -> String {
        CoverPage { bundle, file, firm_name, made_at: at(31) }.html()
    }

    #[test]
    fn a_cover_names_the_exports_content() {
        let bundle = bundle(&[("hook_removed", 2), ("key_revoked", 1)]);
        let page = page(&bundle, Some("Harrow Lane"), "march.bundle");
        for part in [
            "Audit log of Harrow Lane",
            "00000000-0000-0000-0000-000000000001",
            "from 2026-03-01T00:00:00.000Z, before 2026-03-31T00:00:00.000Z",
            "<tr><th>hook_removed</th><td>2</td></tr>",
            "<tr><th>key_revoked</th><td>1</td></tr>",
            &"ab".repeat(32),
            "0123456789abcdef",
            &"cd".repeat(32),
            "entry 9 is the last that was signed",
            "sha256sum &#39;march.bundle&#39;",
            "the page proves nothing",
        ] {
            assert!(page.contains(part), "{part}: {page}");
        }
    }

    /// The cover says how far its proof reaches.
    #[test]
    fn an_empty_periods_cover_says_so() {
        let mut bundle = bundle(&[]);
        let up_to = "No entries in this period up to the signed checkpoint.";
        assert!(page(&bundle, None, "b").contains(up_to));
        bundle.proved.after = Some(EntryTime { sequence: 5, at: at(31) });
        assert!(page(&bundle, None, "b").contains("No entries in this period."));
    }

    /// A cover loads nothing.
    #[test]
    fn a_cover_holds_no_foreign_markup() {
        let name = "<script>alert(1)</script>\" onload='x'\u{202e}&";
        let bundle = BundleSummary { actions: BTreeMap::from([(name.into(), 1)]), ..bundle(&[]) };
        let page = page(&bundle, Some(name), "'; rm -rf <b>");
        assert!(!page.contains("<script") && !page.contains("<b>") && !page.contains('\u{202e}'));
        assert!(page.contains("&lt;script&gt;") && page.contains("&amp;"), "{page}");
        assert!(page.contains("&#39;&#39;\\&#39;&#39;; rm -rf &lt;b&gt;&#39;"), "{page}");
        for foreign in ["http", "src=", "href=", "url("] {
            assert!(!page.contains(foreign), "{foreign}");
        }
    }
}
