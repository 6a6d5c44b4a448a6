//! The grants of each role: every right is tried as every role.

use eventstore::connect;
use sqlx::postgres::PgConnectOptions;
use sqlx::{Connection, Executor, PgConnection, PgPool};
use tests::{TestDatabase, table_names};

use super::{DENIED, GROUPS, Scene, migrate, refused, said};
use tests::process::firmforms;

/// The tables of the vault.
const VAULT: [&str; 10] = [
    "responses",
    "response_people",
    "reports",
    "bookings",
    "bodies",
    "answers",
    "step_headers",
    "mails",
    "webhook_secrets",
    "firm_contacts",
];

fn changes(table: &str) -> Vec<String> {
    let column = if table == "seals" { "events" } else { "sequence" };
    vec![
        format!("update {table} set {column} = 1"),
        format!("delete from {table}"),
        format!("truncate {table}"),
        format!("alter table {table} add column more integer"),
        format!("alter table {table} disable trigger all"),
        format!("alter table {table} disable row level security"),
        format!("alter table {table} owner to current_user"),
        format!("drop table {table} cascade"),
    ]
}

#[tokio::test]
async fn g1_no_role_changes_log_or_proof() {
    let scene = Scene::new().await;
    scene.world.firm().await;
    for group in GROUPS {
        let mut connection = scene.connection(group).await;
        for statement in ["events", "audit_log", "seals"].into_iter().flat_map(changes) {
            let code = refused(&mut connection, &statement).await.map(|(code, _)| code);
            assert_eq!(code.as_deref(), Some(DENIED), "{group}: {statement}");
        }
        for statement in [
            format!("set role {}_owner", scene.prefix),
            "create table mine (id integer)".to_owned(),
            "set session_replication_role = replica".to_owned(),
            "create or replace function events_refuse_change() returns trigger language plpgsql
              as 'begin return new; end'"
                .to_owned(),
        ] {
            let code = refused(&mut connection, &statement).await.map(|(code, _)| code);
            assert_eq!(code.as_deref(), Some(DENIED), "{group}: {statement}");
        }
        connection.close().await.unwrap();
    }
}

/// A position that was drawn and rolled back is a hole. An event in a hole of a sealed block would
/// break the seal for good.
#[tokio::test]
async fn g1_no_role_chooses_an_events_position() {
    let scene = Scene::new().await;
    scene.world.firm().await;
    scene.world.project().await;
    for group in GROUPS {
        let mut connection = scene.connection(group).await;
        connection.execute("set firmforms.firm = '*'").await.unwrap();
        let another = "'Firm', gen_random_uuid()::text, 1, event_type, event_version, payload,
                       metadata, firm_id, recorded_at, digest from events where position = 1";
        for position in ["9000000000000000000", "2", "-1"] {
            let insert =
                format!("insert into events overriding system value select {position}, {another}");
            let code = refused(&mut connection, &insert).await.map(|(code, _)| code);
            assert_eq!(code.as_deref(), Some(DENIED), "{group}: {position}");
        }
        let back = "select setval('events_position_seq', 9)";
        let code = refused(&mut connection, back).await.map(|(code, _)| code);
        assert_eq!(code.as_deref(), Some(DENIED), "{group}: {back}");
        // A group that appends may leave positions out, in a new life of the server (ruling 56).
        let on = "select nextval('events_position_seq')";
        assert_eq!(
            refused(&mut connection, on).await.is_none(),
            group != "auditor",
            "{group}: {on}"
        );
        let append = format!(
            "insert into events (aggregate_type, aggregate_id, sequence, event_type,
                                 event_version, payload, metadata, firm_id, recorded_at, digest)
             select {another} returning position"
        );
        let may = refused(&mut connection, &append).await.is_none();
        assert_eq!(may, group != "auditor", "{group}");
        connection.close().await.unwrap();
    }
    let pool = scene.world.pool();
    for table in ["events", "audit_log"] {
        let below = format!("insert into {table} overriding system value select * from {table}");
        let below =
            below.replace("select *", &format!("select {}", columns_below(pool, table).await));
        let error = pool.execute(below.as_str()).await.unwrap_err().to_string();
        assert!(error.contains(&format!("{table}_position_check")), "{error}");
    }
}

/// The columns of a table, with a position below the first.
async fn columns_below(pool: &PgPool, table: &str) -> String {
    sqlx::query_scalar(
        "select string_agg(case attname when 'position' then '-position' else attname end, ', '
                           order by attnum)
           from pg_attribute
          where attrelid = $1::regclass and attnum > 0 and not attisdropped and attgenerated = ''",
    )
    .bind(table)
    .fetch_one(pool)
    .await
    .unwrap()
}

/// A trigger refuses changes by the owner, as which nobody can log in. The owner has every table.
#[tokio::test]
async fn g1_the_owner_cannot_change_the_log() {
    let scene = Scene::new().await;
    scene.world.firm().await;
    let owner = format!("{}_owner", scene.prefix);
    let mut connection = PgConnection::connect_with(&scene.world.database.main).await.unwrap();
    connection.execute(format!("set role {owner}").as_str()).await.unwrap();
    for table in ["events", "audit_log", "seals"] {
        for statement in changes(table).into_iter().take(3) {
            let (_, message) = refused(&mut connection, &statement).await.unwrap();
            assert!(message.contains("append-only"), "{statement}: {message}");
        }
    }
    let (others, logins): (i64, bool) = sqlx::query_as(
        "select (select count(*) from pg_class
                  where relnamespace in ('public'::regnamespace, 'ranges'::regnamespace)
                    and relkind in ('r', 'p', 'S')
                    and pg_get_userbyid(relowner) <> $1),
                rolcanlogin from pg_roles where rolname = $1",
    )
    .bind(&owner)
    .fetch_one(scene.world.pool())
    .await
    .unwrap();
    assert_eq!((others, logins), (0, false));
}

/// The projector does not read the vault either.
#[tokio::test]
async fn b16_auditors_only_read_outside_the_vault() {
    let scene = Scene::new().await;
    let mut auditor = scene.connection("auditor").await;
    for table in table_names(scene.world.pool()).await {
        for statement in [
            format!("insert into {table} default values"),
            format!("delete from {table}"),
            format!("truncate {table}"),
        ] {
            let code = refused(&mut auditor, &statement).await.map(|(code, _)| code);
            assert_eq!(code.as_deref(), Some(DENIED), "{statement}");
        }
    }
    for table in VAULT.into_iter().chain(["tokens", "people", "identity_check"]) {
        let read = format!("select from {table}");
        let code = refused(&mut auditor, &read).await.map(|(code, _)| code);
        assert_eq!(code.as_deref(), Some(DENIED), "{read}");
    }
    // The hashes of keys are in the log. Their names are for the firm.
    assert_eq!(refused(&mut auditor, "select sha256, revoked_at from key_auth").await, None);
    assert_eq!(refused(&mut auditor, "select name from key_auth").await.unwrap().0, DENIED);
    for function in ["authenticate_keys", "admit_keys"] {
        let whose_key = format!("select * from {function}('{{}}', now(), 1, 1)");
        assert_eq!(refused(&mut auditor, &whose_key).await.unwrap().0, DENIED);
    }
    let keyring = PgConnection::connect_with(&scene.as_login("auditor").keyring).await;
    let code = refused(&mut keyring.unwrap(), "select from data_keys").await.map(|(code, _)| code);
    assert_eq!(code.as_deref(), Some(DENIED));
    let mut projector = scene.connection("projector").await;
    for table in VAULT {
        let read = format!("select from {table}");
        let code = refused(&mut projector, &read).await.map(|(code, _)| code);
        assert_eq!(code.as_deref(), Some(DENIED), "the projector: {read}");
    }
}

/// The function drops deliveries, which no role may delete.
#[tokio::test]
async fn only_the_projector_drops_history() {
    let scene = Scene::new().await;
    for group in GROUPS {
        let mut connection = scene.connection(group).await;
        let drop = refused(&mut connection, "select drop_history_range(now())").await;
        let code = (!["projector", "service"].contains(&group)).then(|| DENIED.to_owned());
        assert_eq!(drop.map(|(code, _)| code), code, "{group}");
        for change in ["delete from history_drops", "update history_drops set row_count = 0"] {
            let change = refused(&mut connection, change).await.map(|(code, _)| code);
            assert_eq!(change.as_deref(), Some(DENIED), "{group}");
        }
    }
}

/// The administrator is no superuser. A login without rights, an undecided table and a role with
/// more rights are refused.
#[tokio::test]
async fn b16_an_administrator_makes_the_roles_again() {
    let database = TestDatabase::without_schema().await;
    let name = database.main.get_database().unwrap();
    let keyring = database.keyring.get_database().unwrap();
    let admin = connect(database.main.clone(), 1);
    for statement in [
        format!("create role {name}_admin login createrole password 'secret'"),
        format!("create role {name}_plain login password 'secret'"),
        format!("alter database {name} owner to {name}_admin"),
        format!("alter database {keyring} owner to {name}_admin"),
    ] {
        admin.execute(statement.as_str()).await.unwrap();
    }
    let by = |who: &str| {
        let login = |of: &PgConnectOptions| {
            of.clone().username(&format!("{name}_{who}")).password("secret")
        };
        TestDatabase::from_main(login(&database.main), login(&database.keyring))
    };
    let (done, text) = migrate(&by("plain"), name).await;
    assert!(!done && text.contains("this login may not change the schema"), "{text}");
    let (done, text) = said(&firmforms(&by("admin")).arg("migrate").output().await.unwrap());
    assert!(done, "{text}");
    // A range of the time before there were roles.
    let before = connect(by("admin").main.clone(), 1);
    before.execute("select make_history_range('deliveries', now())").await.unwrap();
    before.close().await;
    for _ in 0..2 {
        let (done, text) = migrate(&by("admin"), name).await;
        assert!(done, "{text}");
    }
    for command in ["rebuild", "verify"] {
        let output = firmforms(&by("admin")).args(["projections", command, "--all"]).output().await;
        let (done, text) = said(&output.unwrap());
        assert!(done, "{command}: {text}");
    }
    let (done, text) = migrate(&by("plain"), &format!("{name}_b")).await;
    assert!(!done && text.lines().count() == 1, "{text}");

    admin.execute("create table undecided (firm_id uuid)").await.unwrap();
    let (done, text) = migrate(&database, name).await;
    assert!(!done && text.contains("nobody has decided who may use the table undecided"), "{text}");
    admin.execute("drop table undecided").await.unwrap();
    admin.execute(format!("create role {name}_c_api superuser").as_str()).await.unwrap();
    let (done, text) = migrate(&database, &format!("{name}_c")).await;
    assert!(!done && text.contains("can log in or overrule grants"), "{text}");
    let (done, text) = migrate(&database, "No").await;
    assert!(!done && text.contains("small letters"), "{text}");
    admin.execute(format!("drop role {name}_c_api").as_str()).await.unwrap();
}

/// A function that runs with its owner's rights is refused.
#[tokio::test]
async fn b16_strangers_functions_keep_their_owners() {
    let database = TestDatabase::new().await;
    let name = database.main.get_database().unwrap();
    let admin = connect(database.main.clone(), 1);
    let helper = format!("{name}_helper");
    for statement in [
        format!("create role {helper}"),
        "create function helps(integer) returns integer language sql as 'select 1'".to_owned(),
        format!("alter function helps(integer) owner to {helper}"),
        "create function strange() returns text language sql security definer
              as 'select current_user::text'"
            .to_owned(),
    ] {
        admin.execute(statement.as_str()).await.unwrap();
    }
    let (done, text) = migrate(&database, name).await;
    assert!(!done && text.contains("strange() runs with its owner's rights"), "{text}");
    admin.execute("drop function strange()").await.unwrap();
    // Nor is one run that is named like the server's own.
    admin
        .execute(
            "create function public.format(text, name, text) returns text language plpgsql
                 as $$ begin raise exception 'a stranger''s'; end $$",
        )
        .await
        .unwrap();
    let (done, text) = migrate(&database, name).await;
    assert!(done, "{text}");
    let owners: Vec<(String, String)> = sqlx::query_as(
        "select proname::text, pg_get_userbyid(proowner)::text from pg_proc
          where proname in ('helps', 'admit_keys') order by proname",
    )
    .fetch_all(&admin)
    .await
    .unwrap();
    let ours = ("admit_keys".to_owned(), format!("{name}_owner"));
    assert_eq!(owners, [ours, ("helps".to_owned(), helper)]);
}

/// Commands at the terminal use the role `service`. No other role writes a token.
#[tokio::test]
async fn b16_only_the_terminal_makes_tokens() {
    let scene = Scene::new().await;
    for (group, may) in
        [("api", false), ("projector", false), ("deliverer", false), ("service", true)]
    {
        let mut connection = scene.connection(group).await;
        let insert = "insert into tokens (token_id, name, role, sha256, created_at)
                      values (gen_random_uuid(), 'n', 'operator', sha256('x'), now())";
        let code = refused(&mut connection, insert).await.map(|(code, _)| code);
        assert_eq!(code.is_none(), may, "{group}: {code:?}");
        let revoke = "update tokens set revoked_at = now()";
        let code = refused(&mut connection, revoke).await.map(|(code, _)| code);
        assert_eq!(code.is_none(), may, "{group}: {code:?}");
    }
}
