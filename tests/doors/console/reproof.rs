//! A revocation and a pause of everything ask for the token again (ruling 62).

use std::time::Duration;

use api::commands::tokens::{self, HolderRole};

use super::{Scene, Visitor, cookie_of, post, value_of};

/// An old session once revoked keys and paused everything without a new proof.
#[tokio::test]
async fn a_revocation_needs_the_token_again() {
    let scene = Scene::new().await;
    let service = scene.world.service();
    let made = tokens::create(service, "op", HolderRole::Operator).await.unwrap();
    let other = tokens::create(service, "other", HolderRole::Operator).await.unwrap();
    let operator = Visitor::with(&scene.world, &made.token).await;
    scene.world.pass(Duration::from_secs(15 * 60 + 1));
    let path = scene.at(&format!("/keys/{}/revoke", scene.firm.key_id));
    let back = scene.at("/keys");
    let fields =
        [("reason", "a \"stolen\" laptop"), ("prefix", &scene.firm.key[..12]), ("back", &back)];

    let asked = operator.send(&path, &fields).await;
    assert_eq!(asked.status, 403, "{}", asked.text());
    assert!(asked.text().contains(&format!("action=\"{path}\"")), "{}", asked.text());
    assert!(asked.text().contains("value=\"a &quot;stolen&quot; laptop\""), "{}", asked.text());
    assert_eq!(value_of(asked.text(), "prefix"), &scene.firm.key[..12]);
    for (token, status, sentence) in [
        ("fft_wrong", 401, "There is no such token"),
        (&*other.token, 403, "This is not the token of your session"),
    ] {
        let again = [&fields[..], &[("proof_token", token)]].concat();
        let refused = operator.send(&path, &again).await;
        assert_eq!(refused.status, status, "{}", refused.text());
        assert!(refused.text().contains(sentence) && !refused.text().contains(token));
        assert!(
            refused.text().contains("value=\"a &quot;stolen&quot; laptop\""),
            "nothing is lost"
        );
    }
    assert_eq!(scene.world.get(&scene.firm, "/me").await.status, 200);

    let proven = [&fields[..], &[("proof_token", &made.token)]].concat();
    let done = operator.send(&path, &proven).await;
    assert_eq!(done.status, 303, "{}", done.text());
    assert_eq!(done.headers["location"], format!("{back}?done=revoked"));
    assert_eq!(scene.world.get(&scene.firm, "/me").await.status, 401);

    let fresh = Visitor { world: &scene.world, cookie: cookie_of(&done) };
    let all = [("all", "ALL"), ("reason", "a drill")];
    assert_eq!(fresh.send("/console/pauses/begin", &all).await.status, 303, "it is proven now");
}

#[tokio::test]
async fn only_a_pause_of_everything_asks_again() {
    let scene = Scene::new().await;
    let operator = scene.visitor(HolderRole::Operator).await;
    scene.world.pass(Duration::from_secs(15 * 60 + 1));
    let host = [("host", "hooks.example.com"), ("reason", "a drill")];
    assert_eq!(operator.send("/console/pauses/begin", &host).await.status, 303);
    let all = [("all", "ALL"), ("reason", "a drill")];
    let asked = operator.send("/console/pauses/begin", &all).await;
    assert_eq!(asked.status, 403);
    assert!(asked.text().contains("Prove that it is you"), "{}", asked.text());
    let pauses = operator.get("/console/pauses.json").await.body;
    assert_eq!(pauses["items"].as_array().unwrap().len(), 1);
}

/// A wrong token in such a form counts like a wrong token at the sign-in.
#[tokio::test]
async fn wrong_proof_tokens_count_like_sign_ins() {
    let scene = Scene::new().await;
    let operator = scene.visitor(HolderRole::Operator).await;
    scene.world.pass(Duration::from_secs(15 * 60 + 1));
    let form_token = operator.form_token().await;
    let fields = [
        ("form_token", &*form_token),
        ("all", "ALL"),
        ("reason", "a drill"),
        ("proof_token", "fft_wrong"),
    ];
    let send = async || {
        let headers = [("cookie", &*operator.cookie)];
        post(&scene.world, "/console/pauses/begin", &headers, &fields).await
    };
    for _ in 0..20 {
        assert_eq!(send().await.status, 401);
    }
    let refused = send().await;
    assert_eq!(refused.status, 429);
    assert_eq!(refused.headers["retry-after"], "60");
}
