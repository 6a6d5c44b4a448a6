//! The link in the mail: looking changes nothing, the button acts, and no other link does.

use tests::make_request;

use super::*;

/// The path of the link in a mail's `List-Unsubscribe`.
fn link(mail: &Received) -> String {
    let header = header(mail, "List-Unsubscribe");
    let url = header.trim_start_matches('<').trim_end_matches('>');
    url.strip_prefix("https://forms.test").unwrap().to_owned()
}

async fn page(world: &World, method: &str, path: &str, body: &'static str) -> Answer {
    world.public(make_request(method, path, &[], body)).await
}

/// The page shows the firm's name. Looking at the page changes nothing.
#[tokio::test]
async fn only_the_links_button_unsubscribes() {
    let (world, server) = world().await;
    let firm = world.firm().await;
    invite(&world, &firm, "ann@example.com").await;
    let path = link(&server.mails()[0]);
    for _ in 0..2 {
        let shown = page(&world, "GET", &path, "").await;
        assert_eq!(shown.status, 200);
        assert!(shown.text().contains("Harrow Lane") && !shown.text().contains("ann@"));
        assert_eq!(shown.headers["content-type"], "text/html; charset=utf-8");
        assert_eq!(shown.headers["cache-control"], "no-store");
        assert_eq!(shown.headers["x-content-type-options"], "nosniff");
        let policy = shown.headers["content-security-policy"].to_str().unwrap();
        assert!(policy.starts_with("default-src 'none'"), "{policy}");
    }
    world.pass(Duration::from_secs(86_400));
    assert_eq!(outcome(&invite(&world, &firm, "ann@example.com").await), SENT, "looked only");
    for _ in 0..2 {
        let done = page(&world, "POST", &path, "List-Unsubscribe=One-Click").await;
        assert_eq!(done.status, 200);
        assert!(done.text().contains("You are unsubscribed"), "{}", done.text());
    }
    assert_eq!(outcome(&invite(&world, &firm, "ann@example.com").await), skipped("unsubscribed"));
    let events = world.events_of_type("AddressUnsubscribed").await;
    assert_eq!(events.len(), 1, "asked twice, recorded once");
    assert!(events[0].actor().starts_with("person:"), "{events:?}");
}

#[tokio::test]
async fn the_page_speaks_the_mails_language() {
    let (world, server) = world().await;
    let firm = world.firm().await;
    for (lang, word) in [("fr", "désinscrire"), ("es", "Cancelar"), ("en", "Unsubscribe")] {
        let body = json!({"email": format!("{lang}@example.com"), "lang": lang});
        assert_eq!(outcome(&send(&world, &firm, body).await), SENT);
        let shown = page(&world, "GET", &link(server.mails().last().unwrap()), "").await;
        assert!(shown.text().contains(&format!("lang=\"{lang}\"")), "{}", shown.text());
        assert!(shown.text().contains(word), "{}", shown.text());
    }
}

#[tokio::test]
async fn a_foreign_link_changes_nothing() {
    let (world, server) = world().await;
    let firm = world.firm().await;
    invite(&world, &firm, "ann@example.com").await;
    let path = link(&server.mails()[0]);
    let (head, query) = path.split_once('?').unwrap();
    let cut = &head[..head.len() - 1];
    for path in [cut.to_owned(), format!("{head}A?{query}"), "/unsubscribe/%ff".to_owned()] {
        for method in ["GET", "POST"] {
            let answer = page(&world, method, &path, "").await;
            assert_eq!(answer.status, 404, "{method} {path}");
            assert!(answer.text().contains("This link does not work"));
        }
    }
    assert_eq!(world.count("events where aggregate_type = 'Person'").await, 0);
}
