//! Database roles and row-level guards (cases B16 and G1). The rights of each role are tried, and
//! the real binary's roles work each as a login of its own.

mod grants;
mod guards;
mod service;

use sqlx::postgres::PgConnectOptions;
use sqlx::{Connection, Executor, PgConnection};
use tests::{TestDatabase, World};

use tests::process::firmforms;

const GROUPS: [&str; 5] = ["api", "projector", "deliverer", "auditor", "service"];

/// SQLSTATE of a statement that the role may not run.
const DENIED: &str = "42501";

/// Databases with roles of their own, and a login in each.
struct Scene {
    world: World,
    prefix: String,
}

impl Scene {
    async fn new() -> Self {
        Self::on(World::new().await).await
    }

    async fn on(world: World) -> Self {
        let prefix = world.database.main.get_database().unwrap().to_owned();
        let (done, text) = migrate(&world.database, &prefix).await;
        assert!(done, "{text}");
        for group in GROUPS {
            let login = format!(
                "create role {prefix}_{group}_login login password 'secret' in role {prefix}_{group}"
            );
            world.change_database(&login).await;
        }
        Self { world, prefix }
    }

    /// The databases, as a login in this group meets them.
    fn as_login(&self, group: &str) -> TestDatabase {
        let name = format!("{}_{group}_login", self.prefix);
        let login = |of: &PgConnectOptions| of.clone().username(&name).password("secret");
        let TestDatabase { main, keyring, .. } = &self.world.database;
        TestDatabase::from_main(login(main), login(keyring))
    }

    async fn connection(&self, group: &str) -> PgConnection {
        PgConnection::connect_with(&self.as_login(group).main).await.unwrap()
    }

    async fn command(&self, group: &str, arguments: &[&str]) -> (bool, String) {
        let mut command = firmforms(&self.as_login(group));
        said(&command.args(arguments).output().await.unwrap())
    }
}

fn said(output: &std::process::Output) -> (bool, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.success(), text(&output.stdout) + &text(&output.stderr))
}

async fn migrate(database: &TestDatabase, prefix: &str) -> (bool, String) {
    let mut command = firmforms(database);
    command.args(["migrate", "--roles", "--role-prefix", prefix]);
    said(&command.output().await.unwrap())
}

/// Code and message of the refusal of a statement. `None` if PostgreSQL ran the statement.
async fn refused(connection: &mut PgConnection, statement: &str) -> Option<(String, String)> {
    let error = connection.execute(statement).await.err()?;
    let error = error.as_database_error().unwrap();
    Some((error.code().unwrap_or_default().into_owned(), error.message().to_owned()))
}
