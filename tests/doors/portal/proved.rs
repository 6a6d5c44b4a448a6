//! Sessions of the portal, compared with the log. A forged session would open a firm's portal.

use rstest::rstest;

use super::PortalScene;
use tests::process::firmforms;

async fn audit(scene: &PortalScene, command: &str) -> (i32, String) {
    let output = firmforms(&scene.world.database).args(["audit", command]).output().await.unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    (output.status.code().unwrap(), text)
}

#[rstest]
#[case::a_later_end(
    "update portal_sessions set ends_at = ends_at + interval '1 second'",
    1,
    "its ends_at is not what the log says"
)]
#[case::another_member(
    "update portal_sessions set member_id = gen_random_uuid()",
    1,
    "its member_id is not what the log says"
)]
#[case::a_session_by_hand(
    "insert into portal_sessions select sha256('l'), sha256('c'), firm_id, member_id, null, null,
            ends_at from portal_sessions where cookie_sha256 is not null limit 1",
    2,
    "the log has no beginning of a portal session of member"
)]
#[case::a_session_that_never_ends(
    "insert into portal_sessions select sha256('l'), sha256('c'), firm_id, member_id, null, null,
            now() + interval '1 day' from portal_sessions where cookie_sha256 is not null",
    1,
    "it ends later than any session that was begun by now"
)]
#[tokio::test]
async fn a_forged_portal_session_is_found(
    #[case] statement: &str,
    #[case] code: i32,
    #[case] says: &str,
) {
    let scene = PortalScene::new().await;
    scene.owner().await;
    scene.link().await;
    scene.world.project().await;
    assert_eq!(audit(&scene, "checkpoint").await.0, 0);
    let (intact, text) = audit(&scene, "verify").await;
    assert!(intact == 0 && text.contains("and 1 portal sessions are as the log says"), "{text}");
    let changed = scene.world.change_database(statement).await;
    assert!(changed > 0);
    let (there, text) = audit(&scene, "verify").await;
    assert!(there == code && text.contains(says), "{there}: {text}");
}
