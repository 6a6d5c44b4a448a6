//! Notices to firms and to the operator (ruling 49), with a mail server and the operator's URL on
//! real sockets.

use std::collections::BTreeMap;
use std::time::Duration;

use deliverer::NoticeTarget;
use deliverer::claim::claim_due;
use deliverer::inspect::proof::{self, LogFilter, ProofScope};
use domain::delivery::signature::{SignedRequest, WebhookSecret, verify_request};
use eventstore::Clock;
use mailer::{Mailer, SmtpSettings};
use serde_json::{Value, json};
use service::SystemSetup;
use tests::smtp_server::{Setup, SmtpServer, Turn};
use tests::{Firm, Receiver, Reply, TestDatabase, World, activity, later};
use uuid::Uuid;

use crate::invites::{header, text};

const NOON: &str = "2026-11-01T12:00:00.000Z";
const MINUTE: Duration = Duration::from_secs(60);
const DAY: Duration = Duration::from_secs(86_400);
const OFFICE: &str = "office@harrow.example";

/// A world with a mail server, an operator's URL, and a firm with an address.
struct Scene {
    world: World,
    firm: Firm,
    mail: SmtpServer,
    operator: Receiver,
    receiver: Receiver,
    secret: WebhookSecret,
}

impl Scene {
    async fn new() -> Self {
        let (mail, operator) = (SmtpServer::start(Setup::default()).await, Receiver::start().await);
        let secret = WebhookSecret::from_bytes([7; 32]);
        let url = format!("smtp://{}?tls=none", mail.at);
        let mailer = Mailer::over_smtp(&url.parse().unwrap(), &SmtpSettings::default()).unwrap();
        let target = NoticeTarget { url: operator.url("/notices").into(), secret: secret.clone() };
        let change = |setup| SystemSetup {
            mailer,
            notices: Some(target),
            integrations_url: Some("https://app.test/{firm}/integrations".to_owned()),
            ..setup
        };
        let clock = Clock::standing_at(NOON.parse().unwrap());
        let world = World::with(TestDatabase::new().await, clock, change).await;
        let firm = world.firm().await;
        let receiver = Receiver::start().await;
        let scene = Self { world, firm, mail, operator, receiver, secret };
        scene.change(json!({"brand": {"reply_to": OFFICE}}), 1).await;
        scene
    }

    /// The product reports other settings of the firm.
    async fn change(&self, data: Value, second: u32) {
        self.world.report_one(later(activity(self.firm.id, "firm.changed", data), second)).await;
    }

    async fn subscribe(&self, path: &str) -> Uuid {
        self.world.subscribe(&self.firm, &self.receiver.url(path)).await
    }

    /// Sends all due deliveries, then raises notices, mails them and calls the operator.
    async fn work(&self) {
        self.world.deliver().await;
        self.world.notify().await;
        self.world.deliver().await;
    }

    /// A delivery of each subscription is answered like this, and nobody retries it.
    async fn answer(&self, replies: &[u16]) {
        self.receiver.reply(replies.iter().copied().map(Reply::status));
        self.world.submit(&self.firm).await;
        self.work().await;
    }

    /// The events that the operator got, each with a good signature.
    fn events(&self) -> Vec<Value> {
        let now = self.world.clock.now().get().timestamp();
        let read = |got: &tests::Received| {
            let header = got.header("x-service-signature");
            let at: i64 = header[2..].split(',').next().unwrap().parse().unwrap();
            assert!(at <= now);
            let request = SignedRequest { header, body: &got.body };
            verify_request(request, self.secret.as_str(), at).unwrap();
            assert_eq!(got.header("content-type"), "application/cloudevents+json");
            assert_eq!(got.header("x-service-event"), got.json()["type"].as_str().unwrap());
            got.json()
        };
        self.operator.received().iter().map(read).collect()
    }

    fn kinds(&self) -> Vec<String> {
        self.events().iter().map(|one| one["type"].as_str().unwrap().to_owned()).collect()
    }

    fn subjects(&self) -> Vec<String> {
        self.mail.mails().iter().map(|mail| header(mail, "Subject")).collect()
    }
}

/// A thousand failing attempts make one mail and one call of the operator.
#[tokio::test]
async fn an_episode_makes_one_notice_each_way() {
    let scene = Scene::new().await;
    let hook = scene.subscribe("/hook").await;
    scene.receiver.reply(vec![Reply::status(503); 1_000]);
    for _ in 0..125 {
        scene.world.submit(&scene.firm).await;
    }
    for minutes in [0, 1, 2, 4, 8, 16, 32, 60] {
        scene.world.pass(MINUTE * minutes);
        scene.work().await;
    }
    assert_eq!(scene.receiver.received().len(), 1_000);
    assert_eq!(scene.kinds(), [""; 0], "24 hours have not passed");
    scene.world.pass(DAY);
    scene.work().await;
    scene.work().await;
    assert_eq!(scene.kinds(), ["subscription.failing"]);
    assert_eq!(scene.subjects(), ["Harrow Lane: A webhook subscription is failing"]);
    let event = &scene.events()[0];
    assert_eq!(event["data"]["failures"], 1_000);
    assert_eq!(event["data"]["failing_since"], NOON);
    assert_eq!(event["subject"], hook.to_string());
    scene.receiver.reply(vec![Reply::status(503); 20]);
    scene.answer(&[]).await;
    assert_eq!(scene.kinds().len(), 1, "the episode was told");
    while scene.receiver.received().len() < 1_020 {
        scene.world.submit(&scene.firm).await;
        scene.work().await;
    }
    scene.answer(&[200]).await;
    scene.answer(&[200]).await;
    assert_eq!(scene.kinds(), ["subscription.failing", "subscription.recovered"]);
    assert_eq!(scene.world.count("hook_episodes").await, 0);
}

#[tokio::test]
async fn d9_a_removals_notice_has_both_answers() {
    let scene = Scene::new().await;
    let hook = scene.subscribe("/hook?secret=1").await;
    scene.answer(&[410]).await;
    scene.answer(&[410]).await;
    assert_eq!(scene.kinds(), ["subscription.warned", "subscription.removed"]);
    let removed = &scene.events()[1];
    let statuses: Vec<_> =
        removed["data"]["answers"].as_array().unwrap().iter().map(|one| &one["status"]).collect();
    assert_eq!(statuses, [410, 410]);
    assert_eq!(removed["data"]["reason"], "target_gone");
    assert_eq!(removed["source"], tests::BASE_URL);
    let named = &removed["data"]["subscriptions"][0];
    assert_eq!(named["id"], hook.to_string());
    assert!(!removed.to_string().contains("secret"), "no path and query");
    let mails = scene.mail.mails();
    let [warned, gone] = &mails[..] else { panic!("{} mails", mails.len()) };
    assert_eq!(warned.to, [OFFICE]);
    let link = format!("https://app.test/{}/integrations", scene.firm.id);
    let body = text(gone);
    assert!(body.matches("410, 2026-11-01").count() >= 4, "both answers in both parts: {body}");
    assert!(body.contains(&link) && !body.contains("secret"), "{body}");
}

/// The operator's URL refuses calls for an hour.
#[tokio::test]
async fn a_returning_operator_gets_each_notice_once() {
    let scene = Scene::new().await;
    for path in ["/a", "/b", "/c"] {
        scene.subscribe(path).await;
    }
    scene.operator.reply(vec![Reply::status(503); 3 * 6]);
    scene.answer(&[410, 410, 410]).await;
    let lanes = "lanes where kind = 'notice' and due_at is not null";
    assert_eq!(scene.world.count(lanes).await, 1, "the lane waits");
    for minutes in [1, 2, 4, 8, 16, 32] {
        scene.world.pass(MINUTE * minutes);
        scene.work().await;
    }
    let mut bodies: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for got in scene.operator.received() {
        let id = got.header("idempotency-key").to_owned();
        bodies.entry(id).or_default().push(String::from_utf8(got.body.to_vec()).unwrap());
    }
    assert_eq!(bodies.len(), 3);
    for tries in bodies.values() {
        assert_eq!(tries.len(), 7, "six refusals and one success");
        assert!(tries.iter().all(|body| *body == tries[0]), "the same bytes");
    }
    assert_eq!(scene.world.count("outbox").await, 0);
    scene.world.pass(DAY);
    scene.work().await;
    assert_eq!(scene.operator.received().len(), 21);
    assert_eq!(scene.mail.mails().len(), 3);
}

/// A silent mail server once held up the calls of the operator's URL.
#[tokio::test]
async fn a_silent_mail_server_delays_no_call() {
    let scene = Scene::new().await;
    scene.subscribe("/hook").await;
    scene.mail.turn_once("RCPT", Turn::Silence);
    scene.receiver.reply([Reply::status(410)]);
    scene.world.submit(&scene.firm).await;
    scene.world.deliver().await;
    let arrives = async {
        while scene.operator.received().is_empty() {
            scene.world.deliver().await;
        }
    };
    tokio::select! {
        () = scene.world.notify() => panic!("the mail server said nothing"),
        () = arrives => {}
    }
    assert_eq!(scene.kinds(), ["subscription.warned"]);
    assert_eq!(scene.mail.mails().len(), 0);
}

/// The notices of many firms once took every permit of a process.
#[tokio::test]
async fn notices_of_many_firms_leave_permits() {
    let scene = Scene::new().await;
    for _ in 0..40 {
        let firm = scene.world.firm().await;
        let left = activity(firm.id, "member.left", json!({"member_id": firm.owner}));
        scene.world.report_one(later(left, 2)).await;
    }
    scene.world.deliver().await;
    scene.world.notify().await;
    assert_eq!(scene.world.count("outbox where notice is not null").await, 40);
    let claimed = claim_due(scene.world.deliverer(), &scene.world.limits(256)).await.unwrap();
    assert_eq!(claimed.len(), 32, "the limit of one firm and host");
}

/// A process dies with the notice in flight, and the lease ends.
#[tokio::test]
async fn a_lost_notice_is_sent_again() {
    let scene = Scene::new().await;
    scene.subscribe("/hook").await;
    scene.receiver.reply([Reply::status(410)]);
    scene.world.submit(&scene.firm).await;
    scene.world.deliver().await;
    scene.world.notify().await;
    let lost = claim_due(scene.world.deliverer(), &scene.world.limits(16)).await.unwrap();
    assert_eq!(lost.len(), 1);
    drop(lost);
    scene.work().await;
    assert_eq!(scene.kinds(), [""; 0], "its lease runs");
    scene.world.pass(MINUTE * 2);
    scene.work().await;
    assert_eq!(scene.kinds(), ["subscription.warned"]);
}

/// The operator's URL refuses for good, and the notice ends.
#[tokio::test]
async fn a_refused_notice_makes_no_other_notice() {
    let scene = Scene::new().await;
    scene.subscribe("/hook").await;
    scene.operator.reply([Reply::status(410), Reply::status(410)]);
    scene.answer(&[410]).await;
    scene.world.pass(DAY);
    scene.work().await;
    assert_eq!(scene.kinds(), ["subscription.warned"], "no notice is about a notice");
    assert_eq!(scene.world.count("outbox").await, 0);
}

/// The notice names all subscriptions that went along.
#[tokio::test]
async fn b4_a_revoked_key_makes_one_notice() {
    let scene = Scene::new().await;
    let (one, two) = (scene.subscribe("/a").await, scene.subscribe("/b").await);
    let left = json!({"member_id": scene.firm.owner});
    scene.world.report_one(later(activity(scene.firm.id, "member.left", left), 2)).await;
    scene.work().await;
    assert_eq!(scene.kinds(), ["key.revoked"]);
    let event = &scene.events()[0];
    assert_eq!(event["data"]["key"]["name"], "Zapier");
    assert_eq!(event["data"]["reason"], "member_not_manager");
    let ids: Vec<_> =
        event["data"]["subscriptions"].as_array().unwrap().iter().map(|one| &one["id"]).collect();
    assert_eq!(ids, [&json!(one), &json!(two)]);
    let body = text(&scene.mail.mails()[0]);
    assert!(body.contains("Zapier") && body.contains(&two.to_string()), "{body}");
}

/// A subscription that its key deleted before has a notice of its own.
#[tokio::test]
async fn a_closing_makes_one_notice() {
    let scene = Scene::new().await;
    let deleted = scene.subscribe("/a").await;
    scene.subscribe("/b").await;
    scene.subscribe("/c").await;
    scene.world.remove_hook(&scene.firm, deleted).await.ok();
    scene.world.report_one(later(activity(scene.firm.id, "firm.closed", json!({})), 9)).await;
    scene.work().await;
    assert_eq!(scene.kinds(), ["subscription.removed", "subscription.removed"]);
    let events = scene.events();
    let of = |reason: &str| {
        events.iter().find(|one| one["data"]["reason"] == reason).unwrap()["data"].clone()
    };
    assert_eq!(of("deleted_by_key")["subscriptions"].as_array().unwrap().len(), 1);
    assert_eq!(of("firm_closed")["subscriptions"].as_array().unwrap().len(), 2);
}

/// The firm chooses a language or no mail. The operator is called anyway.
#[tokio::test]
async fn a_firm_chooses_its_notice_mails() {
    let scene = Scene::new().await;
    scene.change(json!({"notices": {"lang": "fr"}}), 2).await;
    scene.subscribe("/hook").await;
    scene.answer(&[410]).await;
    let mails = scene.mail.mails();
    assert_eq!(header(&mails[0], "Content-Language"), "fr");
    assert!(text(&mails[0]).contains("Bonjour,"));
    scene.change(json!({"notices": {"mail": false}}), 3).await;
    // The other setting stays as it is.
    scene.change(json!({"notices": {"lang": "en"}}), 4).await;
    scene.answer(&[410]).await;
    assert_eq!(scene.mail.mails().len(), 1);
    assert_eq!(scene.kinds(), ["subscription.warned", "subscription.removed"]);
    for bad in [json!({"lang": "de"}), json!({"mail": "no"}), json!({"x": 1}), json!("off")] {
        let event = activity(scene.firm.id, "firm.changed", json!({"notices": bad}));
        assert_eq!(scene.world.report(&[event]).await.status, 400);
    }
}

#[tokio::test]
async fn a_deferred_mail_is_sent_later() {
    let scene = Scene::new().await;
    scene.subscribe("/hook").await;
    scene.mail.turn_once("RCPT", Turn::Say("451 later"));
    scene.answer(&[410]).await;
    assert_eq!((scene.mail.mails().len(), scene.world.count("notices").await), (0, 1));
    scene.work().await;
    assert_eq!(scene.mail.mails().len(), 0, "not before a minute");
    scene.world.pass(MINUTE);
    scene.work().await;
    assert_eq!((scene.mail.mails().len(), scene.world.count("notices").await), (1, 0));
    assert_eq!(scene.kinds(), ["subscription.warned"]);
}

/// The firm's address is refused, or the firm has none.
#[tokio::test]
async fn an_unreachable_firms_notice_ends() {
    let scene = Scene::new().await;
    scene.subscribe("/hook").await;
    scene.mail.turn_once("RCPT", Turn::Say("550 nobody"));
    scene.answer(&[410]).await;
    assert_eq!((scene.mail.mails().len(), scene.world.count("notices").await), (0, 0));
    scene.change(json!({"brand": {}}), 2).await;
    scene.answer(&[410]).await;
    assert_eq!((scene.mail.mails().len(), scene.world.count("notices").await), (0, 0));
    assert_eq!(scene.kinds().len(), 2);
}

#[tokio::test]
async fn a_suspension_holds_no_operator_notice() {
    let scene = Scene::new().await;
    scene.subscribe("/hook").await;
    scene.operator.reply([Reply::status(503)]);
    scene.answer(&[410]).await;
    scene.world.report_one(later(activity(scene.firm.id, "firm.suspended", json!({})), 5)).await;
    scene.world.pass(MINUTE);
    scene.work().await;
    assert_eq!(scene.operator.received().len(), 2);
    assert_eq!(scene.world.count("outbox").await, 0);
}

#[tokio::test]
async fn the_audit_log_records_notices_without_addresses() {
    let scene = Scene::new().await;
    let hook = scene.subscribe("/hook").await;
    scene.answer(&[410]).await;
    scene.world.project().await;
    let entries: Vec<(String, Value, String)> = sqlx::query_as(
        "select subject_id, evidence, convert_from(entry, 'utf8') from audit_log
          where action = 'notice_sent' order by evidence->>'channel'",
    )
    .fetch_all(scene.world.pool())
    .await
    .unwrap();
    let channels: Vec<_> = entries.iter().map(|(_, evidence, _)| &evidence["channel"]).collect();
    assert_eq!(channels, ["mail", "operator"]);
    for (subject_id, evidence, entry) in &entries {
        assert_eq!(*subject_id, hook.to_string());
        assert_eq!(evidence["to"].as_str().unwrap().len(), 64);
        assert!(!entry.contains(OFFICE) && !entry.contains("/notices"), "{entry}");
    }
    assert_ne!(entries[0].1["to"], entries[1].1["to"]);
}

#[tokio::test]
async fn the_proof_counts_no_notice_as_lost() {
    let scene = Scene::new().await;
    scene.subscribe("/hook").await;
    scene.operator.reply([Reply::status(503)]);
    scene.answer(&[410]).await;
    assert_eq!(scene.world.count("outbox where notice is not null").await, 1);
    let scope = ProofScope { from: 1, to: i64::MAX, part: LogFilter::default(), examples: 1 };
    let report = proof::verify(scene.world.pool(), scope, |_, _| {}).await.unwrap();
    assert!(report.is_proven(), "{report:?}");
}
