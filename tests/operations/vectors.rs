//! The cases of `docs/reference/signature-vectors.json`, made by the service's own signer. Every
//! implementation of the check passes them: the service's, the packages', the receivers'.
//! `UPDATE=1` writes the file.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use domain::delivery::signature::{
    BadSignature, SignedRequest, WebhookSecret, sign_body, verify_request,
};
use serde_json::{Value, json};
use tests::assert_page_is;

/// Seconds of the clock in the file.
const NOW: i64 = 1_800_000_000;

/// A body written by hand: no JSON library writes JSON like this.
pub(crate) const BODY: &str =
    "{\"event\" : \"lead_hot\",\r\n \"respondent\": {\"name\": \"Zoé 🎉 \u{fffd}\"}}";

const ABOUT: &str = "Checks of X-Service-Signature. A verifier gets header, body, secrets and now \
    (unix seconds), and says the verdict: valid, malformed, stale or mismatch. Where lenient is \
    true, a verifier that takes other headers than the service sends may say valid. Made by the \
    service's signer; the secrets sign nothing else.";

/// The answer of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SignatureVerdict {
    Valid,
    Malformed,
    Stale,
    Mismatch,
}

impl SignatureVerdict {
    const fn name(self) -> &'static str {
        match self {
            Self::Valid => "valid",
            Self::Malformed => "malformed",
            Self::Stale => "stale",
            Self::Mismatch => "mismatch",
        }
    }

    const fn new(checked: Result<(), BadSignature>) -> Self {
        match checked {
            Ok(()) => Self::Valid,
            Err(BadSignature::Malformed) => Self::Malformed,
            Err(BadSignature::Stale) => Self::Stale,
            Err(BadSignature::Mismatch) => Self::Mismatch,
        }
    }
}

/// The time of signing, and the two secrets of a rotation.
pub(crate) struct SignerInput {
    pub(crate) now: i64,
    /// Seconds that may pass until the check: so far from 5 minutes are the times near them.
    pub(crate) slack: i64,
    pub(crate) older: String,
    pub(crate) newer: String,
}

/// Input of a check, and its answer.
pub(crate) struct SignatureVector {
    pub(crate) name: &'static str,
    pub(crate) header: String,
    pub(crate) body: Vec<u8>,
    pub(crate) secrets: Vec<String>,
    pub(crate) verdict: SignatureVerdict,
    lenient: bool,
}

impl SignatureVector {
    fn to_json(&self) -> Value {
        json!({
            "name": self.name,
            "header": self.header,
            "body_base64": BASE64_STANDARD.encode(&self.body),
            "secrets": self.secrets,
            "now": NOW,
            "verdict": self.verdict.name(),
            "lenient": self.lenient,
        })
    }

    fn leniently(self) -> Self {
        Self { lenient: true, ..self }
    }

    fn with_body(self, body: &[u8]) -> Self {
        Self { body: body.to_vec(), ..self }
    }

    fn with_secrets(self, secrets: &[&str]) -> Self {
        Self { secrets: secrets.iter().map(|it| (*it).to_owned()).collect(), ..self }
    }
}

/// All cases for this time and these secrets.
pub(crate) fn vectors(input: &SignerInput) -> Vec<SignatureVector> {
    let mut all = valid(input);
    all.extend(malformed(input));
    all.extend(stale(input));
    all.extend(mismatches(input));
    all
}

fn case(
    input: &SignerInput,
    name: &'static str,
    verdict: SignatureVerdict,
    header: String,
) -> SignatureVector {
    let secrets = vec![input.older.clone(), input.newer.clone()];
    SignatureVector { name, header, body: BODY.into(), secrets, verdict, lenient: false }
}

/// The header of [`BODY`], signed with the older secret so many seconds from now.
fn at(input: &SignerInput, seconds: i64) -> String {
    sign_body(&input.older, input.now + seconds, BODY.as_bytes())
}

fn valid(input: &SignerInput) -> Vec<SignatureVector> {
    let of = |name, header| case(input, name, SignatureVerdict::Valid, header);
    let SignerInput { now, older, newer, .. } = input;
    let signed = |body: &[u8]| sign_body(older, *now, body);
    vec![
        of("the first secret of two", at(input, 0)),
        of("the second secret of two", sign_body(newer, *now, BODY.as_bytes())),
        of("the only secret", at(input, 0)).with_secrets(&[older]),
        of("as old as it may be", at(input, -300 + input.slack)),
        of("as far ahead as it may be", at(input, 300 - input.slack)),
        of("an empty body", signed(b"")).with_body(b""),
        of("bytes that are no text", signed(b"\0\xff\r\n")).with_body(b"\0\xff\r\n"),
        of("a body with a byte order mark", signed("\u{feff}{}".as_bytes()))
            .with_body("\u{feff}{}".as_bytes()),
    ]
}

fn malformed(input: &SignerInput) -> Vec<SignatureVector> {
    let of = |name, header| case(input, name, SignatureVerdict::Malformed, header);
    let good = at(input, 0);
    let (t, v1) = good.split_once(",v1=").unwrap();
    vec![
        of("an empty header", String::new()),
        of("no header of this scheme", "garbage".to_owned()),
        of("no v1", t.to_owned()),
        of("no t", format!("v1={v1}")),
        of("an empty t", format!("t=,v1={v1}")),
        of("an empty v1", format!("{t},v1=")),
        of("a further part", format!("{good},v2=aa")).leniently(),
        of("two v1", format!("{t},v1={},v1={v1}", "0".repeat(64))).leniently(),
        of("two t", format!("{t},{good}")).leniently(),
        of("the other order", format!("v1={v1},{t}")).leniently(),
        of("a space between the parts", format!("{t}, v1={v1}")).leniently(),
        of("a space around the header", format!(" {good} ")).leniently(),
        of("a semicolon at the end", format!("{good};")).leniently(),
        of("a line end at the end", format!("{good}\n")).leniently(),
        of("upper-case v1", format!("{t},v1={}", v1.to_uppercase())).leniently(),
        of("63 digits", format!("{t},v1={}", &v1[1..])),
        of("65 digits", format!("{good}0")),
        of("v1 is not hexadecimal", format!("{t},v1={}", "x".repeat(64))),
        of("v1 has digits of another script", format!("{t},v1={}", "\u{661}".repeat(64))),
        of("a signed t", good.replacen("t=", "t=+", 1)).leniently(),
        of("a t before 1970", good.replacen("t=", "t=-", 1)),
        of("a t with a fraction", good.replacen(',', ".0,", 1)).leniently(),
        of("a t in milliseconds", good.replacen(',', "000,", 1)),
        of("a t of 13 digits", good.replacen("t=", "t=000", 1)).leniently(),
        of("names in upper case", good.replacen("t=", "T=", 1)),
    ]
}

fn stale(input: &SignerInput) -> Vec<SignatureVector> {
    let of = |name, header| case(input, name, SignatureVerdict::Stale, header);
    vec![
        of("a little too old", at(input, -301 - input.slack)),
        of("a little too far ahead", at(input, 301 + input.slack)).leniently(),
        of("a day old", at(input, -86_400)),
        of("of 1970", at(input, -input.now)),
        of("the largest t", at(input, 999_999_999_999 - input.now)).leniently(),
        of("old, and of another secret", sign_body("other", input.now - 301, BODY.as_bytes())),
    ]
}

fn mismatches(input: &SignerInput) -> Vec<SignatureVector> {
    let of = |name, header| case(input, name, SignatureVerdict::Mismatch, header);
    let SignerInput { now, older, newer, .. } = input;
    let good = || at(input, 0);
    let with_key = |key: &str| sign_body(key, *now, BODY.as_bytes());
    let moved = good().replacen(&now.to_string(), &(now + 1).to_string(), 1);
    let zeros = format!("t={now},v1={}", "0".repeat(64));
    let other = WebhookSecret::from_bytes([8; 32]);
    vec![
        of("another body", good()).with_body(BODY.replace("hot", "hat").as_bytes()),
        of("a body with a line end more", good()).with_body(format!("{BODY}\n").as_bytes()),
        of("a body that was cut", good()).with_body(&BODY.as_bytes()[..20]),
        of("no body", good()).with_body(b""),
        of("another time", moved),
        of("a t with a zero before it", good().replacen("t=", "t=0", 1)).leniently(),
        of("zeros", zeros),
        of("another firm's secret", with_key(other.as_str())),
        of("a secret without its prefix", with_key(&older.replacen("whsec_", "", 1))),
        of("an empty secret that nobody has", with_key("")),
        of("an empty secret in the list", with_key("")).with_secrets(&["", newer]),
        of("an empty secret alone", with_key("")).with_secrets(&[""]),
        of("no secret at all", good()).with_secrets(&[]),
        of("the secret was taken out", good()).with_secrets(&[newer]),
    ]
}

fn of_the_file() -> SignerInput {
    let older = WebhookSecret::from_bytes(std::array::from_fn(|it| u8::try_from(it).unwrap()));
    let newer = WebhookSecret::from_bytes([9; 32]);
    let text = |secret: WebhookSecret| secret.as_str().to_owned();
    SignerInput { now: NOW, slack: 0, older: text(older), newer: text(newer) }
}

#[test]
fn the_vector_file_equals_the_signers_output() {
    let vectors = vectors(&of_the_file());
    let listed: Vec<Value> = vectors.iter().map(SignatureVector::to_json).collect();
    let page = json!({"about": ABOUT, "vectors": listed});
    let expected = format!("{}\n", serde_json::to_string_pretty(&page).unwrap());
    assert_page_is("signature-vectors.json", &expected);
}

#[test]
fn the_services_own_check_passes_the_vectors() {
    for vector in vectors(&of_the_file()) {
        let request = SignedRequest { header: &vector.header, body: &vector.body };
        let check = |secret: &String| verify_request(request, secret, NOW);
        // The service checks one secret of a firm, which is never empty.
        let checks = vector.secrets.iter().filter(|it| !it.is_empty()).map(check);
        let checked = checks.reduce(Result::or).unwrap_or(Err(BadSignature::Mismatch));
        assert_eq!(SignatureVerdict::new(checked), vector.verdict, "{}", vector.name);
    }
}
