//! The real binary reads settings from a file, from the environment and from files of their own.

use std::fs;
use std::path::Path;

use serde_json::Value;
use tests::World;
use tokio::process::Command;

use tests::process::firmforms;

/// Exit code, standard output and standard error.
async fn said(command: &mut Command) -> (i32, String, String) {
    let output = command.output().await.unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (output.status.code().unwrap(), text(&output.stdout), text(&output.stderr))
}

fn in_folder(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

/// The source and the value of a setting.
fn setting<'a>(settings: &'a Value, name: &str) -> (&'a str, &'a Value) {
    let settings = settings.as_array().unwrap();
    let found = settings.iter().find(|one| one["name"] == name).unwrap();
    (found["source"].as_str().unwrap(), &found["value"])
}

#[tokio::test]
async fn flags_and_variables_overrule_a_settings_file() {
    let world = World::new().await;
    let folder = tempfile::tempdir().unwrap();
    let file = "role = \"api\"\npermits = 7\nkeep-failed-days = 3\npaused = true\n\
                trusted-proxies = [\"10.0.0.0/8\", \"::1/128\"]\nas = \"ann\"\n";
    let file = in_folder(folder.path(), "firmforms.toml", file);
    let mut command = firmforms(&world.database);
    command.args(["config", "show", "--permits", "9", "--json"]);
    command.env("FIRMFORMS_CONFIG", &file).env("FIRMFORMS_KEEP_FAILED_DAYS", "5");
    let (code, text, told) = said(&mut command).await;
    assert_eq!(code, 0, "{told}");
    let settings: Value = serde_json::from_str(&text).unwrap();
    let setting = |name| setting(&settings, name);
    assert_eq!(setting("permits"), ("flag", &"9".into()));
    assert_eq!(setting("keep-failed-days"), ("variable", &"5".into()));
    assert_eq!(setting("role"), ("file", &"api".into()));
    assert_eq!(setting("paused"), ("file", &"true".into()));
    assert_eq!(setting("trusted-proxies"), ("file", &"10.0.0.0/8,::1/128".into()));
    assert_eq!(setting("as"), ("file", &"ann".into()));
    assert_eq!(setting("addr"), ("default", &"127.0.0.1:8080".into()));
    assert_eq!(setting("smtp-url"), ("default", &Value::Null));
    assert_eq!(setting("database-url"), ("variable", &"(hidden)".into()));
    assert_eq!(setting("wrapping-key"), ("variable", &"(hidden)".into()));
    assert!(!text.contains("0707"), "a secret is shown: {text}");
}

#[tokio::test]
async fn a_settings_file_names_databases_and_key() {
    let world = World::new().await;
    let firm = world.firm().await;
    world.project().await;
    let folder = tempfile::tempdir().unwrap();
    let key = in_folder(folder.path(), "key", &"07".repeat(32));
    let plain = firmforms(&world.database);
    let url = |name: &str| {
        let found = plain.as_std().get_envs().find(|(one, _)| *one == name);
        found.unwrap().1.unwrap().to_str().unwrap().to_owned()
    };
    let main = in_folder(folder.path(), "main", &url("DATABASE_URL"));
    let file = format!(
        "database-url-file = \"{main}\"\nkeyring-url = \"{}\"\nwrapping-key-file = \"{key}\"\n",
        url("FIRMFORMS_KEYRING_URL")
    );
    let file = in_folder(folder.path(), "firmforms.toml", &file);
    let mut command = firmforms(&world.database);
    for name in ["DATABASE_URL", "FIRMFORMS_KEYRING_URL", "FIRMFORMS_WRAPPING_KEY"] {
        command.env_remove(name);
    }
    let (code, text, told) = said(command.args(["--config", &file, "firms", "list", "-q"])).await;
    assert_eq!((code, text.trim()), (0, &*firm.id.to_string()), "{told}");
}

#[tokio::test]
async fn a_refused_settings_file_is_named() {
    let world = World::new().await;
    let folder = tempfile::tempdir().unwrap();
    let permits = "invalid value '0' for '--permits <PERMITS>' (";
    for (text, code, expected) in [
        ("rolle = \"api\"", 1, "firmforms.toml: there is no setting rolle; did you mean role?"),
        ("role = ", 1, "firmforms.toml: line 1: "),
        ("permits = 0", 2, permits),
        ("paused = 3", 1, "firmforms.toml: paused: true or false is needed"),
    ] {
        let file = in_folder(folder.path(), "firmforms.toml", text);
        let mut command = firmforms(&world.database);
        let (left, _, told) = said(command.args(["serve", "--check", "--config", &file])).await;
        assert_eq!((left, told.lines().count()), (code, 1), "{text}: {told}");
        assert!(told.contains(expected) && told.contains(&file), "{text}: {told}");
    }
    let mut command = firmforms(&world.database);
    let (code, _, told) = said(command.args(["firms", "list", "--config=/no/such"])).await;
    assert!(code == 1 && told.starts_with("firmforms: the settings file /no/such: "), "{told}");
}

/// `serve --check` looks at settings and databases. The check migrates nothing and makes no folder.
#[tokio::test]
async fn serve_check_finds_faults_and_changes_nothing() {
    let world = World::new().await;
    let check = |settings: &[&str]| {
        let mut command = firmforms(&world.database);
        command.args(["serve", "--check"]).args(settings);
        command
    };
    let (code, text, told) = said(&mut check(&[])).await;
    assert_eq!((code, &*text), (0, "settings: good\ndatabases: both answer\n"), "{told}");

    let (code, _, told) = said(&mut check(&["--extra-roots", "/no/such"])).await;
    assert!(code == 1 && told.contains("--extra-roots /no/such"), "{told}");
    let mut command = check(&[]);
    let (code, _, told) = said(command.env("FIRMFORMS_WRAPPING_KEY", "08".repeat(32))).await;
    assert!(code == 1 && told.contains("wrapping key"), "{told}");
    let mut command = check(&[]);
    command.env("DATABASE_URL", "postgres://nobody@127.0.0.1:1/none");
    let (code, text, told) = said(&mut command).await;
    assert!(code == 1 && told.contains("127.0.0.1:1"), "{told}");
    assert_eq!(text, "settings: good\n");

    let older =
        "delete from _sqlx_migrations where version = (select max(version) from _sqlx_migrations)";
    world.change_database(older).await;
    let (code, text, told) = said(&mut check(&[])).await;
    assert!(code == 0 && text.contains("; the main database has schema "), "{text}{told}");
    assert_eq!(world.count("_sqlx_migrations where version = 1").await, 1);
    let (_, again, _) = said(&mut check(&[])).await;
    assert_eq!(again, text, "the first check changed nothing");

    let folder = tempfile::tempdir().unwrap();
    let data_dir = folder.path().join("none");
    let mut command = check(&[]);
    command.env_remove("DATABASE_URL").env("FIRMFORMS_DATA_DIR", &data_dir);
    let (code, text, told) = said(&mut command).await;
    assert!(code == 0 && text.contains("databases: none in "), "{text}{told}");
    assert!(!data_dir.exists(), "a check makes nothing");
}

/// The refusal repeats no secret. A misspelt variable is a warning.
#[tokio::test]
async fn a_refused_setting_names_its_variable() {
    let world = World::new().await;
    for (variable, value, expected) in [
        ("FIRMFORMS_PERMITS", "0", "FIRMFORMS_PERMITS"),
        ("FIRMFORMS_KEEP_FAILED_DAYS", "9999999", "FIRMFORMS_KEEP_FAILED_DAYS"),
        ("FIRMFORMS_BASE_URL", "example.com", "https://forms.example.com"),
        ("FIRMFORMS_PAUSED", "maybe", "true or false"),
        ("FIRMFORMS_ADDR", "8080", "127.0.0.1:8080"),
        ("FIRMFORMS_LOG_JSON", "maybe", "FIRMFORMS_LOG_JSON"),
        ("DATABASE_URL", "mysql://u:secret@h/d", "postgres://"),
    ] {
        let mut command = firmforms(&world.database);
        let (code, _, told) =
            said(command.args(["serve", "--check", "--role", "projector"]).env(variable, value))
                .await;
        assert!(code > 0 && told.lines().count() == 1, "{variable}: {code} {told}");
        assert!(told.contains(expected) && told.contains(variable), "{variable}: {told}");
        assert!(!told.contains("secret"), "{told}");
    }
    let mut command = firmforms(&world.database);
    command.args(["firms", "list"]).env("FIRMFROMS_ROLE", "api");
    let (code, _, told) = said(&mut command).await;
    assert!(code == 0 && told.contains("did you mean FIRMFORMS_ROLE?"), "{told}");
}

/// The check was silent about an open door, and about a misspelt variable.
#[tokio::test]
async fn serve_check_warns_of_open_doors() {
    let world = World::new().await;
    let mut command = firmforms(&world.database);
    command.args(["serve", "--check", "--internal-addr", "0.0.0.0:18491"]);
    let (code, text, told) = said(command.env("FIRMFROMS_ROLE", "api")).await;
    assert!(code == 0 && text.contains("settings: good"), "{code} {text}{told}");
    assert!(told.contains("did you mean FIRMFORMS_ROLE?"), "{told}");
    assert!(told.contains("THE INTERNAL DOOR IS OPEN WITHOUT TLS"), "{told}");
}

#[tokio::test]
async fn completions_and_manual_pages_name_each_command() {
    let world = World::new().await;
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let (code, text, told) =
            said(firmforms(&world.database).args(["completions", shell])).await;
        assert!(code == 0 && told.is_empty(), "{shell}: {told}");
        assert!(text.contains("projections") && text.contains("show-target"), "{shell}");
    }
    let folder = tempfile::tempdir().unwrap();
    let (code, _, told) = said(firmforms(&world.database).args(["man"]).arg(folder.path())).await;
    assert_eq!(code, 0, "{told}");
    let page = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
    assert!(page("firmforms.1").contains("deliveries"));
    assert!(page("firmforms-audit-verify.1").contains("not decided"));
    let (code, _, told) = said(firmforms(&world.database).args(["man", "/no/such"])).await;
    assert!(code == 1 && told.contains("/no/such"), "{told}");
}

/// Flags, variables and the settings file set the provider, like any other setting.
#[tokio::test]
async fn serve_check_asks_the_consoles_provider() {
    let world = World::new().await;
    let folder = tempfile::tempdir().unwrap();
    let secret = in_folder(folder.path(), "secret", "s3cret\n");
    let file = format!(
        "oidc-issuer = \"http://127.0.0.1:1\"\noidc-client-id = \"firmforms\"\n\
         oidc-client-secret-file = \"{secret}\"\n\
         oidc-redirect-url = \"https://ops.example/console/sign-in/return\"\n\
         oidc-roles = [\"ops=operator\", \"audit=auditor\"]\n"
    );
    let file = in_folder(folder.path(), "firmforms.toml", &file);
    let with_file = |arguments: &[&str]| {
        let mut command = firmforms(&world.database);
        command.args(arguments).args(["--config", &file]);
        command
    };
    let (code, text, told) = said(&mut with_file(&["serve", "--check"])).await;
    assert_eq!(code, 0, "a provider that is away is no fault of the settings: {told}");
    assert!(text.contains("provider 127.0.0.1: the provider cannot be asked: "), "{text}");
    assert!(text.ends_with("databases: both answer\n"), "{text}");

    let mut show = firmforms(&world.database);
    show.args(["config", "show", "--json"]).env("FIRMFORMS_OIDC_ISSUER", "https://id.example");
    show.env("FIRMFORMS_OIDC_CLIENT_ID", "firmforms");
    show.env("FIRMFORMS_OIDC_CLIENT_SECRET", "s3cret");
    show.env("FIRMFORMS_OIDC_REDIRECT_URL", "https://ops.example/console/sign-in/return");
    show.env("FIRMFORMS_OIDC_ROLES", "ops=operator,audit=auditor");
    let (code, text, told) = said(&mut show).await;
    assert_eq!(code, 0, "{told}");
    let settings: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(setting(&settings, "oidc-client-secret"), ("variable", &"(hidden)".into()));
    assert_eq!(setting(&settings, "oidc-roles-claim"), ("default", &"groups".into()));
    assert!(!text.contains("s3cret"), "{text}");

    for (arguments, code, expected) in [
        (["--oidc-redirect-url", "https://ops.example/console"], 1, "must end in /console/sign-in"),
        (["--oidc-redirect-url", "http://ops.example/console/sign-in/return"], 1, "with https"),
        (["--oidc-issuer", "http://id.example"], 1, "the issuer: a URL with https is needed"),
        (["--oidc-roles", "staff=product"], 2, "VALUE=operator"),
        (["--oidc-roles", "cn=ops,ou=groups=operator"], 2, "a comma in VALUE is %2C"),
        (["--oidc-client-secret-file", "/no/such"], 1, "/no/such"),
    ] {
        let check = [&["serve", "--check"][..], &arguments].concat();
        let (left, _, told) = said(&mut with_file(&check)).await;
        assert_eq!(left, code, "{arguments:?}: {told}");
        assert!(told.contains(expected), "{arguments:?}: {told}");
    }
    let mut alone = firmforms(&world.database);
    alone.args(["serve", "--check", "--oidc-issuer", "https://id.example"]);
    let (code, _, told) = said(&mut alone).await;
    assert!(code == 2 && told.contains("--oidc-client-id"), "{told}");
}
