//! `users`: users of the provider who are signed in at the console.

use std::collections::BTreeSet;

use anyhow::bail;
use api::sessions;
use clap::Subcommand;
use domain::values::Timestamp;
use projector::sign_ins::OpenSignIn;
use serde_json::json;
use service::StorageSettings;
use uuid::Uuid;

use crate::databases;
use crate::failure::terminal_error;
use crate::output::{Column, ListTable, OutputArgs, RecordView};

const USERS: ListTable = ListTable::new(
    &[
        Column::id("id"),
        Column::text("role"),
        Column::age("ends_at"),
        Column::text("firm_ids"),
        Column::text("name"),
    ],
    "no user of the provider is signed in",
);

const SIGNED_OUT: RecordView =
    RecordView::new(&[Column::id("id"), Column::number("sessions_ended")]);

/// Shortest beginning of an id.
const ID_PREFIX_MIN: usize = 8;

/// The commands of `users`.
#[derive(Debug, Subcommand)]
pub(crate) enum UsersCommand {
    /// List open sessions.
    List(OutputArgs),
    /// End all sessions of a user at once.
    SignOut {
        /// The user: the id, the beginning of the id, or the name.
        user: String,
        /// The reason; kept in the log.
        #[arg(long)]
        reason: String,
        #[command(flatten)]
        json: OutputArgs,
    },
}

pub(crate) async fn run(storage: &StorageSettings, command: UsersCommand) -> anyhow::Result<()> {
    let system = databases::open(storage).await?;
    let service = &system.service;
    let open = sessions::of_users(service).await.map_err(terminal_error)?;
    match command {
        UsersCommand::List(how) => {
            let item = |one: &OpenSignIn| {
                json!({"id": one.user_id, "name": one.name, "role": one.role,
                       "firm_ids": one.firm_ids, "ends_at": Timestamp::from(one.ends_at)})
            };
            USERS.print(how, open.iter().map(item).collect());
        }
        UsersCommand::SignOut { user, reason, json } => {
            let user_id = find_user(&open, &user)?;
            let ended = sessions::end_of_user(service, user_id, &reason).await;
            let ended = ended.map_err(terminal_error)?;
            SIGNED_OUT.print(json, &json!({"id": user_id, "sessions_ended": ended}));
        }
    }
    system.stop().await
}

/// The user that a text means, among those who are signed in. An id comes before a name, because
/// users may choose their names at the provider.
fn find_user(open: &[OpenSignIn], text: &str) -> anyhow::Result<Uuid> {
    let of = |is_meant: &dyn Fn(&OpenSignIn) -> bool| -> BTreeSet<Uuid> {
        open.iter().filter(|one| is_meant(one)).map(|one| one.user_id).collect()
    };
    let has_id_length = text.len() >= ID_PREFIX_MIN;
    let by_id = of(&|one| has_id_length && one.user_id.to_string().starts_with(text));
    let is_name = by_id.is_empty() && text.parse::<Uuid>().is_err();
    let found = if is_name { of(&|one| one.name == text) } else { by_id };
    let mut ids = found.into_iter();
    match (ids.next(), ids.next()) {
        (Some(id), None) => Ok(id),
        (None, _) => bail!("{text}: no such user is signed in; `firmforms users list` lists them"),
        (Some(_), Some(_)) => bail!("{text}: several users who are signed in have this id or name"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An unambiguous id does too.
    #[test]
    fn only_an_unambiguous_name_means_a_user() {
        let one = |id: u128, name: &str| OpenSignIn {
            user_id: Uuid::from_u128(id << 96),
            name: name.to_owned(),
            role: "auditor".to_owned(),
            firm_ids: None,
            ends_at: "2026-11-01T12:00:00Z".parse().unwrap(),
        };
        let bob = [one(2, "Bob"), one(3, "Bob"), one(4, "00000001")];
        let nobody = Uuid::from_u128(9 << 96).to_string();
        let named = [one(1, "Ann Lee"), one(1, "Ann Lee"), one(5, &nobody)];
        let open = [&named[..], &bob[..]].concat();
        for text in ["Ann Lee", "00000001", "00000001-0000-0000-0000-000000000000"] {
            assert_eq!(find_user(&open, text).unwrap(), open[0].user_id, "{text}");
        }
        let of_nobody = find_user(&open, &nobody).unwrap_err().to_string();
        assert!(of_nobody.contains("no such user"), "{of_nobody}");
        for (text, told) in [("ann", "no such user"), ("0000000", "no such"), ("Bob", "several")] {
            let error = find_user(&open, text).unwrap_err().to_string();
            assert!(error.contains(told), "{text}: {error}");
        }
    }
}
