//! The files of `deploy` for containers are well-formed, belong together and have this version.
//! Their settings, commands and secrets exist.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use yaml_rust2::{Yaml, YamlLoader};

/// The folder with the secrets, as systemd names it.
const CREDENTIALS: &str = "CREDENTIALS_DIRECTORY";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn file(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap()
}

fn documents(path: &str) -> Vec<Yaml> {
    YamlLoader::load_from_str(&file(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn text(value: &Yaml) -> &str {
    value.as_str().unwrap_or_else(|| panic!("no text: {value:?}"))
}

fn list(value: &Yaml) -> impl Iterator<Item = &Yaml> {
    value.as_vec().map(Vec::as_slice).unwrap_or_default().iter()
}

fn texts(value: &Yaml) -> Vec<&str> {
    list(value).map(text).collect()
}

fn keys(value: &Yaml) -> Vec<&str> {
    value.as_hash().unwrap().keys().map(text).collect()
}

/// The documents of all manifests, in the order of their files.
fn manifests() -> Vec<Yaml> {
    let folder = "deploy/kubernetes";
    let named = documents(&format!("{folder}/kustomization.yaml"));
    let mut files = texts(&named[0]["resources"]);
    files.push("migrate/job.yaml");
    let found: Vec<Yaml> =
        files.iter().flat_map(|name| documents(&format!("{folder}/{name}"))).collect();
    assert!(found.len() > 10, "{found:?}");
    found
}

fn of_kinds<'a>(all: &'a [Yaml], kinds: &'a [&str]) -> impl Iterator<Item = &'a Yaml> {
    all.iter().filter(|one| kinds.contains(&text(&one["kind"])))
}

/// Output of the real program for these arguments, in an empty environment.
fn firmforms(arguments: &[&str]) -> Output {
    let mut command = Command::new(tests::program());
    command.env_clear().args(arguments).output().unwrap()
}

/// Fails unless these are arguments of the program. `--help` runs nothing.
fn assert_command(arguments: &[&str]) {
    let output = firmforms(&[arguments, &["--help"]].concat());
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Whether the program reads this variable. The page of settings is equal to the command line.
fn is_variable(name: &str) -> bool {
    file("docs/reference/settings.md").contains(&format!("|`{name}`|")) || name == CREDENTIALS
}

#[test]
fn container_files_name_existing_variables_and_commands() {
    let image = file("deploy/container/Containerfile");
    let mut named: BTreeSet<String> = image
        .split(|letter: char| !letter.is_ascii_uppercase() && letter != '_')
        .filter(|word| word.starts_with("FIRMFORMS_"))
        .map(str::to_owned)
        .collect();
    assert!(named.len() > 2 && image.contains(r#"CMD ["/usr/bin/firmforms", "health"]"#));
    assert_command(&["health"]);

    let compose = &documents("deploy/compose/compose.yaml")[0];
    named.extend(keys(&compose["x-firmforms"]["environment"]).into_iter().map(str::to_owned));
    for service in ["migrate", "firmforms"] {
        assert_command(&texts(&compose["services"][service]["command"]));
    }
    for workload in of_kinds(&manifests(), &["Deployment", "StatefulSet", "Job"]) {
        for container in list(&workload["spec"]["template"]["spec"]["containers"]) {
            assert_command(&texts(&container["args"]));
            named.extend(list(&container["env"]).map(|one| text(&one["name"]).to_owned()));
        }
    }
    for name in named {
        assert!(is_variable(&name), "{name} is no setting");
    }
}

#[test]
fn the_program_takes_each_deployed_settings_file() {
    // A setting that is commented out is an example. A setting has no space after the sign.
    let of_package: String = file("deploy/debian/firmforms.toml")
        .lines()
        .map(|line| match line.strip_prefix('#') {
            Some(setting) if !setting.is_empty() && !setting.starts_with(' ') => setting,
            _ => line,
        })
        .map(|line| line.to_owned() + "\n")
        .collect();
    assert!(of_package.contains("\ntls-cert = "), "{of_package}");
    let folder = tempfile::tempdir().unwrap();
    for settings in [of_package, file("deploy/kubernetes/firmforms.toml")] {
        let path = folder.path().join("firmforms.toml");
        std::fs::write(&path, &settings).unwrap();
        let config = path.to_str().unwrap();
        for command in [
            &["serve", "--role", "api", "--config", config, "--help"][..],
            &["config", "show", "--config", config][..],
        ] {
            let output = firmforms(command);
            let told = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success(), "{settings}\n{told}");
        }
    }
}

/// A disruption budget lets one pod of a workload go at a time. The job of the migration has none.
#[test]
fn each_workload_is_confined_probed_and_budgeted() {
    let all = manifests();
    let mut selectors: Vec<&Yaml> = of_kinds(&all, &["PodDisruptionBudget"])
        .map(|budget| {
            assert_eq!(budget["spec"]["maxUnavailable"].as_i64(), Some(1), "{budget:?}");
            &budget["spec"]["selector"]["matchLabels"]
        })
        .collect();
    let mut roles = BTreeSet::new();
    for workload in of_kinds(&all, &["Deployment", "StatefulSet", "Job"]) {
        let template = &workload["spec"]["template"];
        let pod = &template["spec"];
        assert_eq!(pod["securityContext"]["runAsNonRoot"].as_bool(), Some(true));
        assert_eq!(pod["automountServiceAccountToken"].as_bool(), Some(false));
        let container = &pod["containers"][0];
        let confined = &container["securityContext"];
        assert_eq!(confined["readOnlyRootFilesystem"].as_bool(), Some(true));
        assert_eq!(confined["allowPrivilegeEscalation"].as_bool(), Some(false));
        assert_eq!(texts(&confined["capabilities"]["drop"]), ["ALL"]);
        assert!(container["resources"]["limits"]["memory"].as_str().is_some());
        let role = text(&template["metadata"]["labels"]["role"]);
        roles.insert(role.to_owned());
        if text(&workload["kind"]) == "Job" {
            continue;
        }
        assert_eq!(texts(&container["args"]), ["serve", "--role", role]);
        let selector = &workload["spec"]["selector"]["matchLabels"];
        assert_eq!(selector, &template["metadata"]["labels"]);
        let place = selectors.iter().position(|one| *one == selector).expect("a budget");
        selectors.swap_remove(place);
        for (probe, path) in [("livenessProbe", "/livez"), ("readinessProbe", "/readyz")] {
            let asked = &container[probe]["httpGet"];
            assert_eq!((text(&asked["path"]), text(&asked["port"])), (path, "internal"));
        }
    }
    assert!(selectors.is_empty(), "budgets of no workload: {selectors:?}");
    assert_eq!(Vec::from_iter(roles), ["api", "deliverer", "migrate", "projector"]);
}

#[test]
fn mounts_have_volumes_and_services_have_ports() {
    let all = manifests();
    let mut ports = BTreeSet::new();
    for workload in of_kinds(&all, &["Deployment", "StatefulSet", "Job"]) {
        let spec = &workload["spec"]["template"]["spec"];
        let claims = list(&workload["spec"]["volumeClaimTemplates"]);
        let mut volumes: Vec<&str> = list(&spec["volumes"]).map(|one| text(&one["name"])).collect();
        volumes.extend(claims.map(|claim| text(&claim["metadata"]["name"])));
        let container = &spec["containers"][0];
        let mut mounted: Vec<&str> =
            list(&container["volumeMounts"]).map(|one| text(&one["name"])).collect();
        volumes.sort_unstable();
        mounted.sort_unstable();
        assert_eq!(mounted, volumes, "{workload:?}");
        let role = text(&spec_labels(workload)["role"]).to_owned();
        ports.extend(
            list(&container["ports"]).map(|one| (role.clone(), text(&one["name"]).to_owned())),
        );
    }
    for service in of_kinds(&all, &["Service"]) {
        let role = text(&service["spec"]["selector"]["role"]).to_owned();
        let target = text(&service["spec"]["ports"][0]["targetPort"]).to_owned();
        assert!(ports.contains(&(role, target)), "{service:?}");
    }
}

fn spec_labels(workload: &Yaml) -> &Yaml {
    &workload["spec"]["template"]["metadata"]["labels"]
}

#[test]
fn a_release_has_one_version_everywhere() {
    let version = env!("CARGO_PKG_VERSION");
    for (path, told) in [
        ("deploy/compose/compose.yaml", format!("localhost/firmforms:{version}}}")),
        ("deploy/kubernetes/kustomization.yaml", format!("newTag: {version}\n")),
        ("deploy/kubernetes/migrate/kustomization.yaml", format!("newTag: {version}\n")),
        ("docs/how-to/install.md", format!("firmforms_{version}-1_amd64.deb")),
        ("docs/how-to/run-in-containers.md", format!("localhost/firmforms:{version}`")),
        ("CHANGELOG.md", format!("\n## [{version}] - 20")),
    ] {
        assert!(file(path).contains(&told), "{path} does not name {told}");
    }
}

/// `scripts/package-archive` publishes the list beside the program. The list has no crate that only
/// tests use.
#[test]
fn the_package_list_digests_each_shipped_crate() {
    let output = Command::new(root().join("scripts/sbom")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let bom: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let components = bom["components"].as_array().unwrap();
    let named: Vec<&str> = components.iter().map(|one| one["name"].as_str().unwrap()).collect();
    for name in ["deliverer", "rustls", "sqlx", "tokio"] {
        assert!(named.contains(&name), "{name}");
    }
    for name in ["tests", "bench", "rcgen", "proptest"] {
        assert!(!named.contains(&name), "{name}");
    }
    for one in components {
        let is_ours = one["version"] == env!("CARGO_PKG_VERSION") && one["hashes"].is_null();
        assert!(is_ours || one["hashes"][0]["content"].as_str().unwrap().len() == 64, "{one}");
    }
}
