//! A read model that differs from the log: the first difference is named, and repaired if it may
//! be.

use projector::rebuild::{ReadModel, RebuildAct, RebuildOutcome, RowDifference};

use super::{assert_equal, make, rebuild, tamper, verify};
use tests::whole_story;

/// E9: each read model is changed by hand. The change is found, named and repaired.
#[tokio::test]
async fn e9_a_rebuild_repairs_a_forged_column() {
    let (world, firm) = whole_story::told().await;
    let id = firm.id;
    for (model, forged, expected) in [
        (
            ReadModel::Firms,
            format!("update firms set name = 'Mallory' where firm_id = '{id}'"),
            ["firms", "name", "Harrow & Lane", "Mallory"],
        ),
        (
            ReadModel::Forms,
            "update forms set deleted = false where deleted".into(),
            ["forms", "deleted", "true", "false"],
        ),
        (
            ReadModel::Keys,
            "update key_auth set revoked_at = null where name = 'gone soon'".into(),
            ["key_auth", "revoked_at", "2026-11-01T12:00:00+00:00", "null"],
        ),
        (
            ReadModel::Quotas,
            format!("update quotas set used = 1 where kind = 'hooks' and firm_id = '{id}'"),
            ["quotas", "used", "10", "1"],
        ),
        (
            ReadModel::Deliveries,
            "update deliveries set state = 'delivered' where state = 'failed'".into(),
            ["deliveries", "state", "failed", "delivered"],
        ),
        (
            ReadModel::AuditLog,
            "update audit_heads set sequence = 1 where sequence > 50".into(),
            ["audit_heads", "sequence", "", "1"],
        ),
    ] {
        tamper(&world, &forged).await;
        let found = make(&world, &[model], RebuildAct::Verify).await.unwrap().remove(0);
        let RowDifference { table, column, log, live, .. } = found.difference.clone().unwrap();
        let found_is = [
            table,
            column.as_deref().unwrap_or_default(),
            log.as_deref().unwrap_or_default(),
            live.as_deref().unwrap_or_default(),
        ];
        let expected = expected.map(|word| if word.is_empty() { found_is[2] } else { word });
        assert_eq!(found_is, expected);
        assert!(found.differs());
        let made = make(&world, &[model], RebuildAct::Replace).await.unwrap().remove(0);
        assert_eq!((made.outcome, made.difference), (RebuildOutcome::Replaced, found.difference));
        assert_equal(&make(&world, &[model], RebuildAct::Verify).await.unwrap());
    }
    assert_equal(&verify(&world).await);
}

/// A row is lost, and another was never there. The difference shows a target without its query.
#[tokio::test]
async fn e9_rebuilds_repair_lost_and_forged_rows() {
    let (world, firm) = whole_story::told().await;
    tamper(
        &world,
        "delete from hooks where hook_id = (select min(hook_id::text)::uuid from hooks)",
    )
    .await;
    let made_up = format!(
        "insert into members values ('{}', '00000000-0000-0000-0000-000000000001', 'owner', true)",
        firm.id
    );
    tamper(&world, &made_up).await;
    let found =
        make(&world, &[ReadModel::Hooks, ReadModel::Members], RebuildAct::Verify).await.unwrap();
    let lost = found[0].difference.clone().unwrap();
    assert_eq!((lost.column, lost.live), (None, None));
    let log = lost.log.unwrap();
    assert!(log.contains("target_url") && !log.contains("secret"), "{log}");
    let surplus = found[1].difference.clone().unwrap();
    assert_eq!((surplus.column, surplus.log), (None, None));
    assert!(surplus.key.ends_with("-000000000001"), "{}", surplus.key);
    rebuild(&world).await;
    assert_equal(&verify(&world).await);
}

/// An entry or a seal that differs from the log is evidence, and is never replaced. A lost one
/// comes back.
#[tokio::test]
async fn a_rebuild_changes_no_entry_or_seal() {
    let (world, _) = whole_story::told().await;
    tamper(&world, "delete from audit_log where sequence = 3; delete from seals where number = 1")
        .await;
    for report in rebuild(&world).await {
        let lost = matches!(report.model, ReadModel::AuditLog | ReadModel::Seals);
        assert_eq!((report.outcome, report.difference.is_some()), (RebuildOutcome::Replaced, lost));
    }
    for (model, forged, column) in [
        (
            ReadModel::AuditLog,
            "update audit_log set reason = 'no reason' where sequence = 4",
            "reason",
        ),
        (
            ReadModel::AuditLog,
            "update audit_log set hash = sha256(hash) where sequence = 4",
            "hash",
        ),
        (ReadModel::Seals, "update seals set root = sha256(root) where number = 1", "root"),
    ] {
        tamper(&world, forged).await;
        let report = make(&world, &[model], RebuildAct::Replace).await.unwrap().remove(0);
        assert_eq!(report.outcome, RebuildOutcome::Refused, "{forged}");
        assert_eq!(report.difference.as_ref().unwrap().column.as_deref(), Some(column));
        assert!(report.differs());
    }
}
