//! `serve`: runs the service with the settings of the command line.

use eventstore::crash;
use service::{ServeSettings, StorageSettings};

use crate::descriptors;
use crate::door_setup::{door_addresses, door_pair, warn_of_clear_text};
use crate::serve_args::ServeArgs;
use crate::setup::serve_setup;
use crate::version::version;

pub(crate) async fn run(storage: &StorageSettings, serve: &ServeArgs) -> anyhow::Result<()> {
    let setup = serve_setup(storage, serve)?;
    let shares = descriptors::door_shares(descriptors::raise_limit(), serve);
    let doors = door_pair(serve, shares, &setup.base_url)?;
    warn_of_development(serve);
    warn_of_clear_text(serve);
    service::serve::run(ServeSettings {
        version: version(),
        role: serve.role(),
        storage: storage.clone(),
        setup,
        addresses: door_addresses(serve),
        doors,
    })
    .await
}

fn warn_of_development(serve: &ServeArgs) {
    if crash::COMPILED_IN {
        tracing::warn!("CRASH POINTS ARE COMPILED IN: this build is for tests only");
    }
    if !serve.targets.allow_targets.is_empty() || serve.targets.allow_http_targets {
        tracing::warn!(
            networks = ?serve.targets.allow_targets,
            http = serve.targets.allow_http_targets,
            "PRIVATE TARGETS ARE OPEN: for development and tests only"
        );
    }
    if serve.time_scale > 1.0 {
        tracing::warn!(scale = serve.time_scale, "WAITS ARE SHORTENED: for tests and drills only");
    }
}
