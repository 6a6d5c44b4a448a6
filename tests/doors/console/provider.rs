//! Sign-in by a provider of OpenID Connect: the way there and back, its checks, and attacks on it.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use api::commands::tokens::HolderRole;
use api::sessions;
use domain::delivery::INSTALLATION_FIRM_ID;
use futures::future::join_all;
use rstest::rstest;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tests::{Answer, Firm, World, raw};
use tokio::net::TcpListener;

use super::identity_provider::{
    CLIENT_ID, CLIENT_SECRET, IdentityProvider, ProviderFault, Signing, world_with,
};
use super::{cookie_of, firm_named, get, post, query_of, sign_in, value_of};
use tests::process::{Served, firmforms, serve_with};

const ORIGIN: &str = "http://127.0.0.1:8081";

/// A console with a provider whose values `ops` and `audit` grant roles.
struct Console {
    world: World,
    provider: Arc<IdentityProvider>,
}

/// A browser that was led to the provider.
struct Traveller {
    cookie: String,
    query: HashMap<String, String>,
}

impl Console {
    async fn new() -> Self {
        let provider = IdentityProvider::start().await;
        let settings = provider.settings(ORIGIN, &["ops=operator", "audit=auditor"]);
        Self { world: world_with(settings).await, provider }
    }

    /// A console that waits half a second for the provider.
    async fn impatient() -> Self {
        let provider = IdentityProvider::start().await;
        let settings = oidc::ProviderSettings {
            question_timeout: Duration::from_millis(500),
            ..provider.settings(ORIGIN, &["ops=operator"])
        };
        Self { world: world_with(settings).await, provider }
    }

    async fn leave(&self, back: &str) -> Traveller {
        let path = format!("/console/sign-in/provider?back={back}");
        let answer = get(&self.world, &path, &[("sec-fetch-site", "same-origin")]).await;
        assert_eq!(answer.status, 303, "{}", answer.text());
        let location = answer.headers["location"].to_str().unwrap();
        assert!(
            location.starts_with(&format!("{}/authorize?", self.provider.issuer)),
            "{location}"
        );
        Traveller { cookie: cookie_of(&answer), query: query_of(location) }
    }

    /// The address to which the provider leads back, without the origin.
    fn answer(&self, traveller: &Traveller) -> String {
        let back = self.provider.authorize(&traveller.query).unwrap();
        back.strip_prefix(ORIGIN).unwrap().to_owned()
    }

    async fn come_back(&self, cookie: &str, path: &str) -> Answer {
        let site = ("sec-fetch-site", "cross-site");
        get(&self.world, path, &[("cookie", cookie), site]).await
    }

    /// A whole sign-in.
    async fn travel(&self) -> Answer {
        let traveller = self.leave("/console/proof").await;
        self.come_back(&traveller.cookie, &self.answer(&traveller)).await
    }

    async fn open(&self, cookie: &str, path: &str) -> Answer {
        get(&self.world, path, &[("cookie", cookie)]).await
    }

    /// Action, actor and evidence of the entries of the installation's chain.
    async fn entries(&self) -> Vec<(String, String, Value)> {
        self.world.project().await;
        let entries = self.world.audit_entries(INSTALLATION_FIRM_ID).await.into_iter();
        entries.map(|entry| (entry.action.clone(), entry.actor(), entry.evidence)).collect()
    }
}

fn assert_refused(answer: &Answer, status: u16, sentence: &str) {
    assert_eq!(answer.status, status, "{}", answer.text());
    assert!(answer.text().contains(sentence), "{sentence}: {}", answer.text());
    assert!(answer.text().contains("name=\"token\""), "a token can sign in: {}", answer.text());
    let set = answer.headers.get_all("set-cookie").iter();
    let sessions = set.filter(|set| set.to_str().unwrap().contains("firmforms_console="));
    assert_eq!(sessions.count(), 0);
}

/// The sign-out ends the session for every copy of the cookie.
#[tokio::test]
async fn a_provider_user_is_the_recorded_actor() {
    let console = Console::new().await;
    let page = get(&console.world, "/console/sign-in?back=/console/proof", &[]).await;
    let link = "/console/sign-in/provider?back=%2Fconsole%2Fproof";
    assert!(page.text().contains(link), "{}", page.text());
    let answer = console.travel().await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let refresh = "<meta http-equiv=\"refresh\" content=\"0; url=/console/proof\">";
    assert!(answer.text().contains(refresh), "{}", answer.text());
    let sets: Vec<_> = answer.headers.get_all("set-cookie").iter().collect();
    let session = sets[0].to_str().unwrap();
    let attributes = "; Path=/console; Max-Age=28800; HttpOnly; SameSite=Strict";
    assert!(session.ends_with(attributes), "{session}");
    assert!(sets[1].to_str().unwrap().starts_with("firmforms_sign_in=; "), "{sets:?}");
    let cookie = cookie_of(&answer);

    let home = console.open(&cookie, "/console/firms").await;
    assert_eq!(home.status, 200);
    assert!(home.text().contains("<bdi>Ann Lee</bdi>"), "{}", home.text());
    assert!(home.text().contains("<span>operator</span>"), "{}", home.text());
    let token = value_of(home.text(), "form_token");
    let pause = [
        ("form_token", &*token),
        ("reason", "a drill"),
        ("scope", "host"),
        ("host", "hooks.example.com"),
    ];
    let paused =
        post(&console.world, "/console/pauses/begin", &[("cookie", &cookie)], &pause).await;
    assert_eq!(paused.status, 303, "{}", paused.text());

    let out = [("form_token", &*token)];
    let answer = post(&console.world, "/console/sign-out", &[("cookie", &cookie)], &out).await;
    assert_eq!(answer.status, 303);
    assert_eq!(console.open(&cookie, "/console/firms").await.status, 303, "a copy of the cookie");

    let entries = console.entries().await;
    let actions: Vec<&str> = entries.iter().map(|(action, ..)| &**action).collect();
    assert_eq!(actions, ["user_signed_in", "deliveries_paused", "user_signed_out"]);
    let evidence = &entries[0].2;
    assert_eq!(evidence["name"], "Ann Lee");
    assert_eq!(evidence["subject"], "ann-1");
    assert_eq!(evidence["issuer"], console.provider.issuer);
    assert_eq!(evidence["role"], "operator");
    let actor = format!("operator:{}", evidence["user_id"].as_str().unwrap());
    assert!(entries.iter().all(|(_, by, _)| *by == actor), "{entries:?}");
}

/// The report of access on a day once left out users of the provider.
#[tokio::test]
async fn the_access_report_lists_provider_users() {
    let console = Console::new().await;
    let world = &console.world;
    let (firm, other) = (world.firm().await, world.firm().await);
    let at = async |firm: &Firm, as_of: &str| {
        let path = format!("/firms/{}/access?as_of={as_of}", firm.id);
        let auditor = world.new_token(HolderRole::Auditor).await;
        let found = world.get_internally(&auditor, &path).await;
        assert_eq!(found.status, 200, "{}", found.text());
        found.body["users"].clone()
    };
    let before = world.clock.now();
    world.pass(Duration::from_secs(60));
    console.provider.claim(&json!({"groups": ["audit"]}));
    let cookie = cookie_of(&console.travel().await);
    let signed_in = world.clock.now();
    world.project().await;
    world.pass(Duration::from_secs(60));
    let open = world.clock.now();
    assert_eq!(at(&firm, &before.to_string()).await, json!([]));
    let users = at(&firm, &open.to_string()).await;
    assert_eq!(users[0]["name"], "Ann Lee");
    assert_eq!(users[0]["role"], "auditor");
    assert_eq!(users[0]["signed_in_at"], signed_in.to_string());
    assert_eq!(users, at(&other, &open.to_string()).await);
    let page = console.open(&cookie, &format!("/console/firms/{}/access", firm.id)).await;
    assert!(page.text().contains("Users of the provider"), "{}", page.text());
    assert!(page.text().contains("<bdi>Ann Lee</bdi>"), "{}", page.text());

    world.pass(Duration::from_hours(8));
    assert_eq!(at(&firm, &world.clock.now().to_string()).await, json!([]));
    assert_eq!(at(&firm, &open.to_string()).await, users);
}

/// A former employee once stayed signed in until the session ended by itself.
#[tokio::test]
async fn an_operator_ends_a_users_sessions() {
    let console = Console::new().await;
    let service = console.world.service();
    let mut cookies = Vec::new();
    for _ in 0..2 {
        cookies.push(cookie_of(&console.travel().await));
    }
    let open = sessions::of_users(service).await.unwrap();
    let names: Vec<&str> = open.iter().map(|one| &*one.name).collect();
    assert_eq!(names, ["Ann Lee", "Ann Lee"]);
    let user = open[0].user_id;
    let wordless = sessions::end_of_user(service, user, " ").await.unwrap_err();
    assert!(matches!(wordless, api::Error::InvalidRequest(_)), "{wordless}");
    assert_eq!(sessions::end_of_user(service, user, "left the company").await.unwrap(), 2);
    for cookie in &cookies {
        assert_eq!(console.open(cookie, "/console/firms").await.status, 303);
    }
    let again = sessions::end_of_user(service, user, "left the company").await.unwrap_err();
    assert_eq!(again, api::Error::NotFound);
    assert_eq!(sessions::of_users(service).await.unwrap(), []);
    console.world.project().await;
    let entries = console.world.audit_entries(INSTALLATION_FIRM_ID).await;
    let ended: Vec<_> =
        entries[2..].iter().map(|entry| (entry.action.as_str(), entry.reason.as_deref())).collect();
    assert_eq!(ended, [("user_signed_out", Some("left the company")); 2]);
    assert!(entries[2..].iter().all(|entry| entry.actor_kind == "operator"), "{entries:?}");
    assert_eq!(console.travel().await.status, 200, "the provider decides who comes back");
}

#[tokio::test]
async fn the_terminal_lists_and_signs_out_users() {
    let console = Console::new().await;
    console.travel().await;
    // The program has the time of this machine.
    let hour = "update sign_ins set ends_at = now() + interval '1 hour', last_used_at = now()";
    console.world.change_database(hour).await;
    let program = async |arguments: &[&str]| {
        let output = firmforms(&console.world.database).args(arguments).output().await.unwrap();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        (output.status.code(), text(&output.stdout) + &text(&output.stderr))
    };
    let (code, listed) = program(&["users", "list"]).await;
    assert!(
        code == Some(0) && listed.contains("Ann Lee") && listed.contains("operator"),
        "{listed}"
    );
    let out = ["users", "sign-out", "Ann Lee", "--reason", "left the company", "--json"];
    let (code, ended) = program(&out).await;
    assert!(code == Some(0) && ended.contains("\"sessions_ended\": 1"), "{ended}");
    let (code, refused) = program(&out).await;
    assert!(code == Some(1) && refused.contains("no such user is signed in"), "{refused}");
    let (_, listed) = program(&["users", "list"]).await;
    assert!(listed.contains("no user of the provider is signed in"), "{listed}");
}

/// The log names the user as at each sign-in.
#[tokio::test]
async fn a_renamed_user_stays_one_actor() {
    let console = Console::new().await;
    console.travel().await;
    console.provider.claim(&json!({"name": "Ann Moor"}));
    let cookie = cookie_of(&console.travel().await);
    let entries = console.entries().await;
    assert_eq!(entries[0].1, entries[1].1, "another name, and no other user");
    let sign_ins: Vec<uuid::Uuid> = sqlx::query_scalar("select sign_in_id from sign_ins")
        .fetch_all(console.world.pool())
        .await
        .unwrap();
    let mut told = String::new();
    for sign_in in sign_ins {
        let page = console.open(&cookie, &format!("/console/log?stream={sign_in}")).await;
        told.push_str(page.text());
    }
    for sentence in
        ["Ann Lee (ann-1 at http", "Ann Moor (ann-1 at http", "Ann Moor&quot; of the provider"]
    {
        assert!(told.contains(sentence), "{sentence}: {told}");
    }

    let user = entries[0].2["user_id"].as_str().unwrap();
    let token = value_of(console.open(&cookie, "/console/firms").await.text(), "form_token");
    let asked = [("form_token", &*token), ("q", user)];
    let found = post(&console.world, "/console/find", &[("cookie", &cookie)], &asked).await;
    assert_eq!(found.status, 303, "a single finding is shown at once: {}", found.text());
    let page = found.headers["location"].to_str().unwrap();
    let page = console.open(&cookie, page).await;
    assert!(page.text().contains("Ann Moor (ann-1 at http"), "{}", page.text());
}

#[tokio::test]
async fn a_user_session_ends_after_8_hours() {
    let console = Console::new().await;
    let cookie = cookie_of(&console.travel().await);
    for _ in 0..16 {
        console.world.pass(Duration::from_mins(29));
        assert_eq!(console.open(&cookie, "/console/firms").await.status, 200);
    }
    console.world.pass(Duration::from_secs(16 * 60 - 1));
    assert_eq!(console.open(&cookie, "/console/firms").await.status, 200);
    console.world.pass(Duration::from_secs(1));
    assert_eq!(console.open(&cookie, "/console/firms").await.status, 303);
}

/// An unused session once stayed open for eight hours.
#[tokio::test]
async fn unused_user_sessions_end_after_30_minutes() {
    let console = Console::new().await;
    let cookie = cookie_of(&console.travel().await);
    for _ in 0..2 {
        console.world.pass(Duration::from_secs(30 * 60 - 1));
        assert_eq!(console.open(&cookie, "/console/firms").await.status, 200);
    }
    assert_eq!(sessions::of_users(console.world.service()).await.unwrap().len(), 1);
    console.world.pass(Duration::from_mins(30));
    assert_eq!(console.open(&cookie, "/console/firms").await.status, 303);
    assert_eq!(sessions::of_users(console.world.service()).await.unwrap(), []);
}

/// Release 0.2.0 stored no last use.
#[tokio::test]
async fn older_sessions_count_from_their_sign_in() {
    let console = Console::new().await;
    let cookie = cookie_of(&console.travel().await);
    let former = "update sign_ins set last_used_at = null, proven_at = null";
    console.world.change_database(former).await;
    console.world.pass(Duration::from_mins(29));
    assert_eq!(console.open(&cookie, "/console/firms").await.status, 200);
    console.world.change_database(former).await;
    console.world.pass(Duration::from_mins(1));
    assert_eq!(console.open(&cookie, "/console/firms").await.status, 303);
}

/// At many providers a user may enter any address. Such an address once made an operator.
#[rstest]
#[case(json!({"email_verified": false}), None)]
#[case(json!({}), None)]
#[case(json!({"email_verified": true}), Some("/console/proof"))]
#[tokio::test]
async fn an_unverified_address_grants_nothing(#[case] claims: Value, #[case] led_to: Option<&str>) {
    let provider = IdentityProvider::start().await;
    let settings = oidc::ProviderSettings {
        roles_claim: "email".to_owned(),
        ..provider.settings(ORIGIN, &["boss@example.com=operator"])
    };
    let console = Console { world: world_with(settings).await, provider };
    let mut all = claims;
    all["email"] = json!("boss@example.com");
    console.provider.claim(&all);
    let answer = console.travel().await;
    match led_to {
        Some(page) => assert!(answer.status == 200 && answer.text().contains(page)),
        None => assert_refused(&answer, 403, "the provider has not verified the address"),
    }
}

/// Claims that the user proved the identity so many seconds ago.
fn told_at(console: &Console, seconds_ago: i64) -> Value {
    let now = console.world.clock.now().get().timestamp();
    json!({"auth_time": now - seconds_ago, "exp": now + 300})
}

impl Console {
    /// Orders a pause of all deliveries.
    async fn pause_all(&self, cookie: &str) -> Answer {
        let page = self.open(cookie, "/console/firms").await;
        let token = value_of(page.text(), "form_token");
        let fields = [
            ("form_token", &*token),
            ("all", "ALL"),
            ("reason", "a drill & more"),
            ("back", "/console/pauses"),
        ];
        let headers = [("cookie", cookie)];
        post(&self.world, "/console/pauses/begin", &headers, &fields).await
    }

    async fn pauses(&self, cookie: &str) -> usize {
        let found = self.open(cookie, "/console/pauses.json").await;
        found.body["items"].as_array().unwrap().len()
    }
}

#[tokio::test]
async fn an_act_continues_after_a_new_proof() {
    let console = Console::new().await;
    let cookie = cookie_of(&console.travel().await);
    let asked = console.pause_all(&cookie).await;
    assert_eq!(asked.status, 403, "{}", asked.text());
    assert!(asked.text().contains("Sign in again by 127.0.0.1"), "{}", asked.text());
    let (_, link) = asked.text().split_once("<p class=\"buttons\"><a href=\"").unwrap();
    let link = link.split('"').next().unwrap().replace("&amp;", "&");
    let way = Traveller { cookie: cookie_of(&asked), query: query_of(&link) };
    assert_eq!((&*way.query["prompt"], &*way.query["max_age"]), ("login", "900"));
    assert_eq!(console.pauses(&cookie).await, 0);

    console.provider.claim(&told_at(&console, 0));
    let answer = console.come_back(&way.cookie, &console.answer(&way)).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert!(answer.text().contains("a drill &amp; more"), "{}", answer.text());
    let new = cookie_of(&answer);
    assert_ne!(new, cookie);
    let old = console.open(&cookie, "/console/pauses.json").await;
    assert_eq!(old.status, 401, "the session before has ended");
    let token = value_of(answer.text(), "form_token");
    assert_eq!(value_of(answer.text(), "all"), "ALL");
    let back = value_of(answer.text(), "back");
    let fields =
        [("form_token", &*token), ("all", "ALL"), ("reason", "a drill & more"), ("back", &*back)];
    let path = "/console/pauses/begin";
    assert!(answer.text().contains(&format!("action=\"{path}\"")), "{}", answer.text());
    let done = post(&console.world, path, &[("cookie", &new)], &fields).await;
    assert_eq!(
        (done.status.as_u16(), done.headers["location"].to_str().unwrap()),
        (303, "/console/pauses?done=paused")
    );
    assert_eq!(console.pauses(&new).await, 1);
}

/// The provider may have checked the user in the morning, before a thief took the browser.
#[tokio::test]
async fn an_old_or_missing_proof_is_refused() {
    let console = Console::new().await;
    let cookie = cookie_of(&console.travel().await);
    for claims in [json!({}), told_at(&console, 901)] {
        let asked = console.pause_all(&cookie).await;
        let (_, link) = asked.text().split_once("<p class=\"buttons\"><a href=\"").unwrap();
        let link = link.split('"').next().unwrap().replace("&amp;", "&");
        let way = Traveller { cookie: cookie_of(&asked), query: query_of(&link) };
        console.provider.claim(&claims);
        let answer = console.come_back(&way.cookie, &console.answer(&way)).await;
        assert_refused(&answer, 403, "as auth_time, that you signed in just now");
    }
    assert_eq!(console.pauses(&cookie).await, 0);
}

#[tokio::test]
async fn a_fresh_sign_in_is_proof_enough() {
    let console = Console::new().await;
    console.provider.claim(&told_at(&console, 60));
    let cookie = cookie_of(&console.travel().await);
    assert_eq!(console.pause_all(&cookie).await.status, 303);
    console.world.pass(Duration::from_secs(841));
    assert_eq!(console.pause_all(&cookie).await.status, 403);
}

#[rstest]
#[case(json!({"groups": ["staff"]}), "none of staff grants one")]
#[case(json!({"groups": "Ops"}), "none of Ops grants one")]
#[case(json!({"groups": null}), "the provider told no roles")]
#[case(json!({"groups": ["<b>"]}), "none of &lt;b&gt; grants one")]
#[tokio::test]
async fn nobody_has_a_role_by_default(#[case] claims: Value, #[case] sentence: &str) {
    let console = Console::new().await;
    console.provider.claim(&claims);
    let answer = console.travel().await;
    assert_refused(&answer, 403, "Ann Lee is known to the provider, and has no role here");
    assert!(answer.text().contains(sentence), "{}", answer.text());
    assert_eq!(console.entries().await, []);
}

#[tokio::test]
async fn a_claim_value_grants_some_firms_only() {
    let provider = IdentityProvider::start().await;
    // The firm has an id before the settings name it.
    let firm = uuid::Uuid::from_u128(7);
    let settings = provider.settings(ORIGIN, &[&format!("ops=auditor:{firm}")]);
    let world = world_with(settings).await;
    let opened = json!({"name": "Seven", "plan": {"leads_in_full": true}});
    world.report(&[tests::activity(firm, "firm.opened", opened)]).await;
    let other = firm_named(&world, "Other").await;
    let console = Console { world, provider };
    let cookie = cookie_of(&console.travel().await);
    let of = |id| format!("/console/firms/{id}");
    let page = console.open(&cookie, &of(firm)).await;
    assert_eq!(page.status, 200);
    assert!(page.text().contains("<span>auditor, some firms</span>"), "{}", page.text());
    assert_eq!(console.open(&cookie, &of(other)).await.status, 404);
}

#[rstest]
#[case(Signing::Rs256)]
#[case(Signing::Es256)]
#[case(Signing::NewEs256)]
#[tokio::test]
async fn tokens_signed_by_the_provider_are_believed(#[case] signing: Signing) {
    let console = Console::new().await;
    console.provider.sign(signing);
    let traveller = console.leave("/console").await;
    console.world.pass(Duration::from_secs(15));
    let answer = console.come_back(&traveller.cookie, &console.answer(&traveller)).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    let described = *console.provider.described.lock().unwrap();
    let expected = if signing == Signing::NewEs256 { 2 } else { 1 };
    assert_eq!(described, expected, "the description is kept until a key is missing in it");
}

#[rstest]
#[case(Signing::StrangeKey, json!({}))]
#[case(Signing::Unsigned, json!({}))]
#[case(Signing::Hs256, json!({}))]
#[case(Signing::Rs256, json!({"iss": "https://evil.example"}))]
#[case(Signing::Rs256, json!({"aud": "another client"}))]
#[case(Signing::Rs256, json!({"aud": ["firmforms", "another client"]}))]
#[case(Signing::Rs256, json!({"azp": "another client"}))]
#[case(Signing::Rs256, json!({"exp": 1_793_534_399}))]
#[case(Signing::Rs256, json!({"nonce": "another"}))]
#[case(Signing::Rs256, json!({"nonce": null}))]
#[case(Signing::Rs256, json!({"sub": ""}))]
#[tokio::test]
async fn a_token_that_proves_nobody_is_refused(#[case] signing: Signing, #[case] claims: Value) {
    let console = Console::new().await;
    console.provider.sign(signing);
    console.provider.claim(&claims);
    assert_refused(&console.travel().await, 403, "the answer of the provider proves nobody");
    assert_eq!(console.entries().await, []);
}

/// An attacker could bring an answer of the provider to a victim's browser. The victim would then
/// work in a session of the attacker.
#[tokio::test]
async fn an_unrequested_answer_signs_nobody_in() {
    let console = Console::new().await;
    let attacker = console.leave("/console").await;
    let victim = console.leave("/console").await;
    let answer = console.answer(&attacker);
    for cookie in ["", &*victim.cookie, "firmforms_sign_in=AAAA"] {
        let answer = console.come_back(cookie, &answer).await;
        assert_refused(&answer, 403, "this sign-in did not begin in this browser");
    }
    let stateless = answer.replace("state=", "other=");
    let answer = console.come_back(&attacker.cookie, &stateless).await;
    assert_refused(&answer, 403, "this sign-in did not begin in this browser");
    assert_eq!(console.entries().await, []);
}

#[tokio::test]
async fn another_site_begins_no_sign_in() {
    let console = Console::new().await;
    for site in ["cross-site", "same-site"] {
        let path = "/console/sign-in/provider";
        let answer = get(&console.world, path, &[("sec-fetch-site", site)]).await;
        assert_refused(&answer, 403, "another site asked for this sign-in");
        assert!(!answer.headers.contains_key("set-cookie"));
    }
}

/// An attacker can set a cookie in the victim's browser, and must not know the session from it.
#[tokio::test]
async fn each_session_gets_a_new_cookie() {
    let console = Console::new().await;
    let first = cookie_of(&console.travel().await);
    let planted = format!("firmforms_console={}", "A".repeat(43));
    for brought in [&first, &planted] {
        let traveller = console.leave("/console").await;
        let cookies = format!("{brought}; {}", traveller.cookie);
        let answer = console.come_back(&cookies, &console.answer(&traveller)).await;
        assert_eq!(answer.status, 200);
        assert_ne!(cookie_of(&answer), *brought);
    }
    assert_eq!(console.open(&planted, "/console/firms").await.status, 303);
}

/// A sign-in that was begun ends after ten minutes.
#[tokio::test]
async fn one_sign_in_makes_one_session() {
    let console = Console::new().await;
    let traveller = console.leave("/console").await;
    let answer = console.answer(&traveller);
    let begun = console.come_back(&traveller.cookie, &answer).await;
    assert_eq!(begun.status, 200);
    let again = console.come_back(&traveller.cookie, &answer).await;
    assert_refused(&again, 403, "the provider refused the sign-in: invalid_grant");
    let new_code = console.answer(&traveller);
    let again = console.come_back(&traveller.cookie, &new_code).await;
    assert_refused(&again, 403, "this sign-in did not begin in this browser, or is over");
    let cookie = cookie_of(&begun);
    let token = value_of(console.open(&cookie, "/console/firms").await.text(), "form_token");
    let out = [("form_token", &*token)];
    post(&console.world, "/console/sign-out", &[("cookie", &cookie)], &out).await;
    let now = console.world.clock.now().get();
    let gone = projector::sign_ins::forget(console.world.pool(), now, 10).await.unwrap();
    assert_eq!(gone, 0, "a sign-out frees no way for another session");
    let again = console.come_back(&traveller.cookie, &console.answer(&traveller)).await;
    assert_refused(&again, 403, "this sign-in did not begin in this browser, or is over");
    let late = console.leave("/console").await;
    let answer = console.answer(&late);
    console.world.pass(Duration::from_secs(600));
    let answer = console.come_back(&late.cookie, &answer).await;
    assert_refused(&answer, 403, "this sign-in did not begin in this browser, or is over");
}

#[rstest]
#[case("https://evil.example/")]
#[case("//evil.example/console")]
#[case("/console/..%2Finternal")]
#[case("/console%0d%0aset-cookie:%20a=b")]
#[tokio::test]
async fn a_return_leads_to_no_other_site(#[case] back: &str) {
    let console = Console::new().await;
    let traveller = console.leave(back).await;
    let answer = console.come_back(&traveller.cookie, &console.answer(&traveller)).await;
    assert!(answer.text().contains("content=\"0; url=/console\""), "{}", answer.text());
    assert!(!answer.text().contains("evil"), "{}", answer.text());
}

/// Nonce and proof key are new, too. No address holds the client's secret.
#[tokio::test]
async fn each_sign_in_has_its_own_state() {
    let console = Console::new().await;
    let (one, other) = (console.leave("/console").await, console.leave("/console").await);
    for name in ["state", "nonce", "code_challenge"] {
        assert_eq!(one.query[name].len(), 43, "{name}");
        assert_ne!(one.query[name], other.query[name], "{name}");
        assert!(!one.cookie.contains(&one.query[name]), "{name}");
    }
    assert_eq!(one.query["redirect_uri"], format!("{ORIGIN}/console/sign-in/return"));
    assert!(!one.query.values().any(|value| value.contains("s3cret")));
}

/// Behind TLS the cookie is for this host alone.
#[tokio::test]
async fn sign_in_cookies_are_lax_and_short() {
    let provider = IdentityProvider::start().await;
    for (origin, expected) in [
        (ORIGIN, "firmforms_sign_in= Path=/console; Max-Age=600; HttpOnly; SameSite=Lax"),
        (
            "https://ops.example",
            "__Host-firmforms_sign_in= Path=/; Max-Age=600; HttpOnly; SameSite=Lax; Secure",
        ),
    ] {
        let world = world_with(provider.settings(origin, &["ops=operator"])).await;
        let answer = get(&world, "/console/sign-in/provider", &[]).await;
        let set = answer.headers["set-cookie"].to_str().unwrap();
        let (name, rest) = set.split_once('=').unwrap();
        let (_, attributes) = rest.split_once("; ").unwrap();
        assert_eq!(format!("{name}= {attributes}"), expected);
    }
}

#[tokio::test]
async fn a_refusal_shows_no_foreign_text() {
    let console = Console::new().await;
    for (error, sentence) in [
        ("access_denied", "the provider refused the sign-in: access_denied"),
        ("%3Cscript%3E", "the provider refused the sign-in: for a reason it did not name"),
    ] {
        *console.provider.refusal.lock().unwrap() = Some(error.to_owned());
        let answer = console.travel().await;
        assert_refused(&answer, 403, sentence);
        assert!(!answer.text().contains("<script>"), "{}", answer.text());
    }
    let traveller = console.leave("/console").await;
    let path = format!("{}&iss=https://evil.example", console.answer(&traveller));
    let answer = console.come_back(&traveller.cookie, &path).await;
    assert_refused(&answer, 403, "another provider answered");
}

/// The provider is asked again after 15 seconds.
#[tokio::test]
async fn tokens_sign_in_while_the_provider_fails() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let addr = listener.local_addr().unwrap();
    let known = IdentityProvider::start().await;
    let settings = oidc::ProviderSettings {
        issuer: format!("http://{addr}"),
        ..known.settings(ORIGIN, &["ops=operator"])
    };
    drop(listener);
    let world = world_with(settings).await;
    let leave = async || get(&world, "/console/sign-in/provider", &[]).await;
    assert_refused(&leave().await, 502, "the provider cannot be asked");
    let token = world.new_token(HolderRole::Operator).await;
    assert_eq!(sign_in(&world, &token, &[]).await.status, 303);
    let _back = IdentityProvider::on(TcpListener::bind(addr).await.unwrap(), "127.0.0.1");
    assert_refused(&leave().await, 502, "the provider cannot be asked");
    world.pass(Duration::from_secs(15));
    assert_eq!(leave().await.status, 303);
}

/// Anybody can open the page that leads to the provider. Each of many visits once read the
/// provider's description.
#[tokio::test]
async fn concurrent_visits_read_the_description_once() {
    let console = Console::new().await;
    let leave = || get(&console.world, "/console/sign-in/provider", &[]);
    for answer in join_all((0..20).map(|_| leave())).await {
        assert_eq!(answer.status, 303);
    }
    assert_eq!(*console.provider.described.lock().unwrap(), 1);
}

/// Anybody can bring an answer with a forged code. The provider was once asked about each.
#[tokio::test]
async fn after_20_failures_an_address_waits() {
    let console = Console::new().await;
    let forged = async || {
        let Traveller { cookie, query } = console.leave("/console").await;
        let path = format!("/console/sign-in/return?code=forged&state={}", query["state"]);
        console.come_back(&cookie, &path).await
    };
    for _ in 0..20 {
        assert_refused(&forged().await, 403, "the provider refused the sign-in: invalid_grant");
    }
    console.provider.fail_at("/token", ProviderFault::Silence);
    let refused = forged().await;
    assert_refused(&refused, 429, "too many sign-ins failed from this address");
    assert_eq!(refused.headers["retry-after"], "60");
    console.provider.faults.lock().unwrap().clear();
    assert_refused(&console.travel().await, 429, "try again in 60 seconds");
    console.world.pass(Duration::from_secs(60));
    assert_eq!(console.travel().await.status, 200);
}

/// All callers of the internal door once had one address, and one caller locked the others out.
#[tokio::test]
async fn failed_sign_ins_count_by_caller_address() {
    let provider = IdentityProvider::start().await;
    let served = serve_for(&provider, &["--trusted-proxies", "127.0.0.9/32"]).await;
    let ask = async |caller: u8, path: &str, more: &str| {
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: test\r\n{more}Connection: close\r\n\r\n");
        let caller = Ipv4Addr::new(127, 0, 0, caller).into();
        raw::exchange_from(caller, served.internal, &request).await.unwrap()
    };
    let leave = async |caller, more: &str| {
        let (_, left) = ask(caller, "/console/sign-in/provider", more).await;
        (query_of(&header_of(&left, "location: ")), header_of(&left, "set-cookie: "))
    };
    let forge = async |caller, more: &str| {
        let (query, flow) = leave(caller, more).await;
        let path = format!("/console/sign-in/return?code=forged&state={}", query["state"]);
        ask(caller, &path, &format!("{more}Cookie: {flow}\r\n")).await.0
    };
    let sign_in = async |caller, more: &str| {
        let (query, flow) = leave(caller, more).await;
        let back = provider.authorize(&query).unwrap();
        let path = back.strip_prefix(ORIGIN).unwrap();
        ask(caller, path, &format!("{more}Cookie: {flow}\r\n")).await
    };
    let (one, other) = ("X-Forwarded-For: 198.51.100.1\r\n", "X-Forwarded-For: 198.51.100.2\r\n");
    // All at once, because failures count for a minute.
    let forged = join_all((0..20).flat_map(|_| [forge(2, ""), forge(9, one)])).await;
    assert!(forged.iter().all(|status| *status == 403), "{forged:?}");
    for (caller, more, expected) in [(2, "", 429), (9, one, 429), (3, "", 200), (9, other, 200)] {
        let (status, answer) = sign_in(caller, more).await;
        assert_eq!(status, expected, "{answer}{}", served.log.lock().unwrap());
    }
}

/// Wrong API keys, or an outage of the provider, once locked all users out.
#[tokio::test]
async fn outages_count_as_no_failed_sign_in() {
    let console = Console::new().await;
    for _ in 0..20 {
        let answer = console.world.call("a wrong key", "GET", "/me", Value::Null).await;
        assert_eq!(answer.status, 401);
    }
    console.provider.fail_at("/token", ProviderFault::Error);
    for _ in 0..20 {
        assert_refused(&console.travel().await, 502, "the provider cannot be asked now");
    }
    console.provider.faults.lock().unwrap().clear();
    console.provider.claim(&json!({"groups": ["guests"]}));
    for _ in 0..20 {
        assert_refused(&console.travel().await, 403, "has no role here");
    }
    console.provider.claim(&json!({}));
    assert_eq!(console.travel().await.status, 200);
}

/// Each token with an unknown key made the service read the description again. A failed reading
/// once left the service without a description.
#[tokio::test]
async fn an_unreadable_description_leaves_the_old_one() {
    let console = Console::new().await;
    assert_eq!(console.travel().await.status, 200);
    console.world.pass(Duration::from_secs(15));
    console.provider.fail_at("/.well-known/openid-configuration", ProviderFault::Error);
    console.provider.sign(Signing::StrangeKey);
    assert_refused(&console.travel().await, 502, "the provider cannot be asked now");
    assert_refused(&console.travel().await, 403, "the answer of the provider proves nobody");
    console.provider.sign(Signing::Rs256);
    assert_eq!(console.travel().await.status, 200);
    assert_eq!(*console.provider.described.lock().unwrap(), 1);
}

#[rstest]
#[case("/.well-known/openid-configuration", ProviderFault::Silence)]
#[case("/.well-known/openid-configuration", ProviderFault::Error)]
#[case("/.well-known/openid-configuration", ProviderFault::LongAnswer)]
#[case("/.well-known/openid-configuration", ProviderFault::Elsewhere)]
#[case("/.well-known/openid-configuration", ProviderFault::OtherShape)]
#[case("/jwks", ProviderFault::Silence)]
#[case("/jwks", ProviderFault::LongAnswer)]
#[case("/jwks", ProviderFault::Elsewhere)]
#[tokio::test]
async fn a_failing_provider_yields_an_error_page(
    #[case] path: &'static str,
    #[case] fault: ProviderFault,
) {
    let console = Console::impatient().await;
    console.provider.fail_at(path, fault);
    let page = get(&console.world, "/console/sign-in/provider", &[]).await;
    assert_refused(&page, 502, "the provider cannot be asked now, and the log tells why");
    assert!(!page.text().contains(&console.provider.issuer), "{}", page.text());
    assert_eq!(*console.provider.led_elsewhere.lock().unwrap(), 0, "no redirect is followed");
}

#[rstest]
#[case(ProviderFault::Silence, 502)]
#[case(ProviderFault::Error, 502)]
#[case(ProviderFault::LongAnswer, 502)]
#[case(ProviderFault::Elsewhere, 502)]
#[case(ProviderFault::OtherShape, 403)]
#[tokio::test]
async fn a_failed_exchange_signs_nobody_in(#[case] fault: ProviderFault, #[case] status: u16) {
    let console = Console::impatient().await;
    console.provider.fail_at("/token", fault);
    let page = console.travel().await;
    let sentence = match status {
        502 => "the provider cannot be asked now, and the log tells why",
        _ => "the answer of the provider proves nobody: it cannot be read, at access_token",
    };
    assert_refused(&page, status, sentence);
    assert!(!page.text().contains("eyJ"), "no part of a token is repeated: {}", page.text());
    assert_eq!(*console.provider.led_elsewhere.lock().unwrap(), 0, "no redirect is followed");
    assert_eq!(console.entries().await, []);
}

/// An attacker on the way to a URL without TLS could give other keys, or take the code.
#[rstest]
#[case("jwks_uri", "http://id.example/jwks")]
#[case("token_endpoint", "http://id.example/token")]
#[case("authorization_endpoint", "http://id.example/authorize")]
#[case("authorization_endpoint", "javascript:alert(1)")]
#[case("issuer", "https://evil.example")]
#[tokio::test]
async fn an_unsafe_description_url_leads_nowhere(#[case] member: &str, #[case] url: &str) {
    let console = Console::new().await;
    console.provider.describe_as(&json!({member: url}));
    let page = get(&console.world, "/console/sign-in/provider", &[]).await;
    assert_refused(&page, 502, "the provider cannot be asked now");
}

#[tokio::test]
async fn a_withdrawn_key_counts_for_one_hour() {
    let console = Console::new().await;
    console.provider.claim(&json!({"exp": 1_793_600_000}));
    assert_eq!(console.travel().await.status, 200);
    console.world.pass(Duration::from_secs(3_599));
    assert_eq!(console.travel().await.status, 200);
    assert_eq!(*console.provider.described.lock().unwrap(), 1);
    console.world.pass(Duration::from_secs(1));
    assert_eq!(console.travel().await.status, 200);
    assert_eq!(*console.provider.described.lock().unwrap(), 2);
}

#[tokio::test]
async fn user_sessions_end_with_the_provider() {
    let console = Console::new().await;
    let cookie = cookie_of(&console.travel().await);
    assert_eq!(console.open(&cookie, "/console/firms").await.status, 200);
    let Console { world, .. } = console;
    let clock = world.clock.clone();
    let without = World::with(world.database, clock, |setup| setup).await;
    let page = get(&without, "/console/firms", &[("cookie", &cookie)]).await;
    assert_eq!(page.status, 303, "{}", page.text());
}

/// A session once outlived the setting that granted its role.
#[tokio::test]
async fn a_session_ends_with_its_grant() {
    let console = Console::new().await;
    let cookie = cookie_of(&console.travel().await);
    assert_eq!(console.open(&cookie, "/console/firms").await.status, 200);
    let Console { world, provider } = console;
    let settings = provider.settings(ORIGIN, &["ops=auditor", "audit=auditor"]);
    let provider = Some(Arc::new(oidc::Provider::new(settings).unwrap()));
    let clock = world.clock.clone();
    let change = |setup| service::SystemSetup { provider, ..setup };
    let changed = World::with(world.database, clock, change).await;
    let page = get(&changed, "/console/firms", &[("cookie", &cookie)]).await;
    assert_eq!(page.status, 303, "{}", page.text());
}

/// The real process with this provider, whose users of the group `ops` are operators.
async fn serve_for(provider: &IdentityProvider, more: &[&str]) -> Served {
    serve_on(&tests::TestDatabase::new().await, provider, more).await
}

async fn serve_on(
    database: &tests::TestDatabase,
    provider: &IdentityProvider,
    more: &[&str],
) -> Served {
    provider.settings(ORIGIN, &[]);
    // The process has the time of today.
    provider.claim(&json!({"exp": 4_000_000_000_u64}));
    let redirect_url = format!("{ORIGIN}/console/sign-in/return");
    let arguments = [
        ["--oidc-issuer", &*provider.issuer],
        ["--oidc-client-id", CLIENT_ID],
        ["--oidc-redirect-url", &redirect_url],
        ["--oidc-scopes", "profile"],
        ["--oidc-roles", "ops=operator"],
    ]
    .concat();
    let secret = [("FIRMFORMS_OIDC_CLIENT_SECRET", CLIENT_SECRET)];
    serve_with(database, &[&arguments, more].concat(), &secret).await
}

/// The value of a header of a whole answer, without attributes.
fn header_of(answer: &str, name: &str) -> String {
    let value = answer.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    value.split(';').next().unwrap().to_owned()
}

/// The page of such a sign-in said that something went wrong, and the log said nothing.
#[tokio::test]
async fn the_log_explains_a_failed_sign_in() {
    let world = World::new().await;
    let provider = IdentityProvider::start().await;
    let served = serve_on(&world.database, &provider, &[]).await;
    world.change_database("drop table sign_ins cascade").await;
    let ask = async |path: &str, more: &str| {
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: test\r\n{more}Connection: close\r\n\r\n");
        raw::exchange(served.internal, &request).await.unwrap()
    };
    let (_, left) = ask("/console/sign-in/provider", "").await;
    let flow = format!("Cookie: {}\r\n", header_of(&left, "set-cookie: "));
    let back = provider.authorize(&query_of(&header_of(&left, "location: "))).unwrap();
    let (code, page) = ask(back.strip_prefix(ORIGIN).unwrap(), &flow).await;
    assert_eq!(code, 503, "{page}");
    served.until_logged("a call failed", 1).await;
    let log = served.log.lock().unwrap().clone();
    assert!(log.contains("sign_ins"), "{log}");
}

/// The real process, whose log a person reads.
#[tokio::test]
async fn the_log_explains_refusals_without_secrets() {
    let provider = IdentityProvider::start().await;
    let served = serve_for(&provider, &[]).await;
    let ask = async |path: &str, cookie: &str| {
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: test\r\nCookie: {cookie}\r\nConnection: close\r\n\r\n"
        );
        raw::exchange(served.internal, &request).await.unwrap()
    };
    let mut secrets = vec![CLIENT_SECRET.to_owned(), "Ann Lee".to_owned()];
    for (groups, status) in [("ops", 200), ("staff", 403), ("ops", 502)] {
        provider.claim(&json!({"exp": 4_000_000_000_u64, "groups": groups}));
        if status == 502 {
            provider.fail_at("/token", ProviderFault::Error);
        }
        let (_, left) = ask("/console/sign-in/provider", "").await;
        let (location, flow) = (header_of(&left, "location: "), header_of(&left, "set-cookie: "));
        let query = query_of(&location);
        let back = provider.authorize(&query).unwrap();
        secrets.push(query_of(&back)["code"].clone());
        secrets.extend(["state", "nonce"].map(|name| query[name].clone()));
        secrets.push(flow.split_once('=').unwrap().1.to_owned());
        let (code, page) = ask(back.strip_prefix(ORIGIN).unwrap(), &flow).await;
        assert_eq!(code, status, "{page}");
        if status == 200 {
            secrets.push(header_of(&page, "set-cookie: ").split_once('=').unwrap().1.to_owned());
        }
    }
    served.until_logged("nobody signed in by the provider", 1).await;
    let log = served.log.lock().unwrap().clone();
    assert!(log.contains("the provider cannot be asked: "), "{log}");
    assert!(log.contains("it answered 500 Internal Server Error"), "{log}");
    assert!(log.contains("a user of the provider has no role here, and was refused"), "{log}");
    for secret in secrets {
        assert!(!log.contains(&secret), "{secret}: {log}");
    }
}

#[tokio::test]
async fn without_a_provider_its_pages_are_missing() {
    let world = World::new().await;
    let page = get(&world, "/console/sign-in", &[]).await;
    assert!(!page.text().contains("/console/sign-in/provider"), "{}", page.text());
    for path in ["/console/sign-in/provider", "/console/sign-in/return?code=a&state=b"] {
        assert_eq!(get(&world, path, &[]).await.status, 404);
    }
}

#[tokio::test]
async fn session_rows_hold_no_cookie_and_expire() {
    let console = Console::new().await;
    let cookie = cookie_of(&console.travel().await);
    let (_, secret) = cookie.split_once('=').unwrap();
    let kept: Vec<Vec<u8>> = sqlx::query_scalar("select cookie_sha256 from sign_ins")
        .fetch_all(console.world.pool())
        .await
        .unwrap();
    assert_eq!(kept, [Sha256::digest(secret.as_bytes()).to_vec()]);
    console.world.pass(Duration::from_secs(8 * 3_600 + 600));
    let now = console.world.clock.now().get();
    let gone = projector::sign_ins::forget(console.world.pool(), now, 10).await.unwrap();
    assert_eq!(gone, 1);
}
