//! A revoked token is asked about in the transaction of the calls that come at the same time.

use api::commands::tokens::{self, HolderRole};
use tests::submitted;
use uuid::Uuid;

use super::{Call, Held, call, counts, patient, transactions};

#[tokio::test]
async fn a_revoked_tokens_call_fails_alone() {
    let world = patient().await;
    let firm = world.firm().await;
    for revoked in [1, 2, 8] {
        let token = tokens::create(world.service(), "gone", HolderRole::Product).await.unwrap();
        let by = |response| -> Call<'_> {
            let (world, token, report) = (&world, &token.token, submitted(&firm, response));
            Box::pin(async move { world.report_by(token, &[report]).await })
        };
        assert_eq!(counts(&by(world.id()).await), (1, 0), "it is known from now on");
        let held = Held::both(&world, &firm).await;
        tokens::revoke(world.service(), token.id).await.unwrap();
        let good: Vec<Uuid> = (0..8).map(|_| world.id()).collect();
        let bad: Vec<Uuid> = (0..revoked).map(|_| world.id()).collect();
        let mut calls: Vec<Call<'_>> =
            good.iter().map(|response| call(&world, vec![submitted(&firm, *response)])).collect();
        calls.splice(3..3, bad.iter().map(|response| by(*response)));
        let answers = held.meanwhile(calls).await;
        for (place, answer) in answers.iter().enumerate() {
            if (3..3 + revoked).contains(&place) {
                assert_eq!(answer.code(), (401, "unauthorized"), "{}", answer.text());
            } else {
                assert_eq!(counts(answer), (1, 0));
            }
        }
        assert!(transactions(&world, &bad).await.is_empty());
        assert_eq!(transactions(&world, &good).await.len(), 1, "the others go on together");
        by(world.id()).await.refused(401, "unauthorized");
    }
}
