//! Foreign text on pages: names, labels, reasons, URLs and parameters stay text.

use api::commands::tokens::HolderRole;
use serde_json::json;
use tests::{Reply, activity};

use super::Scene;

const SCRIPT: &str = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>";

fn assert_tame(page: &str, path: &str) {
    for part in ["<script>alert", "<img", "\"'><", "onerror=alert(2)>\""] {
        assert!(!page.contains(part), "{path}: {part}: {page}");
    }
}

#[tokio::test]
async fn names_labels_reasons_and_targets_stay_text() {
    let scene = Scene::new().await;
    let firm = &scene.firm;
    scene.world.report_one(activity(firm.id, "firm.changed", json!({ "name": SCRIPT }))).await;
    scene.world.new_key(firm, SCRIPT).await;
    let target = scene.receiver.url("/%22%3E%3Cscript%3Ealert(1)?a=<script>alert(1)</script>");
    scene.world.subscribe(firm, &target).await;
    scene.receiver.reply([Reply::status(500).header("content-type", "text/html")]);
    scene.deliver().await;
    let operator = scene.visitor(HolderRole::Operator).await;
    let fields = [("firm_id", &*firm.id.to_string()), ("reason", SCRIPT)];
    assert_eq!(operator.send("/console/pauses/begin", &fields).await.status, 303);
    scene.world.project().await;
    let delivery = scene.deliveries().await[0];
    let paths = [
        "/console".to_owned(),
        "/console/firms".to_owned(),
        "/console/pauses".to_owned(),
        "/console/tokens".to_owned(),
        scene.at(""),
        scene.at("/keys"),
        scene.at("/hooks"),
        scene.at("/audit"),
        scene.at("/access"),
        scene.at("/deliveries"),
        scene.at(&format!("/deliveries/{delivery}")),
    ];
    let mut shown = 0;
    for path in paths {
        let page = operator.page(&path).await;
        shown += usize::from(page.contains("&lt;script&gt;alert(1)"));
        assert_tame(&page, &path);
    }
    assert!(shown > 5, "{shown} pages showed the text");
}

#[tokio::test]
async fn the_answer_of_a_receiver_stays_text() {
    let scene = Scene::new().await;
    let answer = Reply::status(500).header("content-type", "text/html").body(SCRIPT.as_bytes());
    scene.receiver.reply([answer]);
    let delivery = scene.deliver().await;
    let auditor = scene.visitor(HolderRole::Auditor).await;
    let path = scene.at(&format!("/deliveries/{delivery}/reveal"));
    let shown = auditor.send(&path, &[("what", "answer"), ("reason", "a case")]).await;
    assert!(shown.text().contains("&lt;script&gt;alert(1)"), "{}", shown.text());
    assert_tame(shown.text(), &path);
}

#[tokio::test]
async fn parameters_and_fields_stay_text() {
    let scene = Scene::new().await;
    let operator = scene.visitor(HolderRole::Operator).await;
    let hostile = "%22%27%3E%3Cimg%20src%3Dx%20onerror%3Dalert(2)%3E";
    let paths = [
        scene.at(&format!("/deliveries?hook_id={hostile}")),
        scene.at(&format!("/deliveries?as_of={hostile}")),
        scene.at(&format!("/audit?actor={hostile}&subject={hostile}&since={hostile}")),
        scene.at(&format!("/replay?hook_id={hostile}&since={hostile}")),
        scene.at(&format!("/deliveries?{hostile}=1")),
        format!("/console/find?q={hostile}"),
        format!("/console/receivers?host={hostile}"),
        format!("/console/log?stream={hostile}"),
        format!("/console/firms/{hostile}"),
        format!("/console/{hostile}"),
        format!("/console?done={hostile}"),
        format!("/console/sign-in?back={hostile}"),
    ];
    for path in paths {
        let answer = operator.get(&path).await;
        assert_tame(answer.text(), &path);
    }
    let found = operator.send("/console/find", &[("q", SCRIPT)]).await;
    assert_tame(found.text(), "find");
    let back = [("host", "a.example"), ("reason", "a"), ("back", "javascript:alert(1)")];
    let answer = operator.send("/console/pauses/begin", &back).await;
    assert_eq!(answer.headers["location"], "/console?done=paused");
}
