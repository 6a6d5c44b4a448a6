//! Checks the settings of `serve` before any resource is opened.

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use api::{CallBatchers, SendingMode};
use auditor::VerificationSchedule;
use deliverer::Retention;
use deliverer::{DelivererSettings, NoticeTarget, TimeScale};
use domain::delivery::pressure::HostCaps;
use domain::delivery::signature::WebhookSecret;
use domain::subscription::{AllowedTargets, Target};
use inviter::InviteWait;
use mailer::{Mailer, SenderAddress, SmtpSettings, SmtpUrl};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use service::{DEFAULT_MAIL_FROM, RangeRetention, StorageSettings, SystemSetup};

use crate::databases::UNUSED_BASE_URL;
use crate::provider;
use crate::secret_file::read_secret;
use crate::serve_args::ServeArgs;
use crate::shared_args::{ArchivePlace, TargetArgs};

pub(crate) fn serve_setup(
    storage: &StorageSettings,
    serve: &ServeArgs,
) -> anyhow::Result<SystemSetup> {
    let smtp_url = smtp_url(serve)?;
    let scale = TimeScale::new(serve.time_scale).context("--time-scale: from 1 to 10000")?;
    if !scale.is_real() && serve.targets.allow_targets.is_empty() {
        bail!("--time-scale needs --allow-targets: it is for tests and drills only");
    }
    let scheme = if serve.tls_cert.is_some() { "https" } else { "http" };
    let base = serve.base_url.clone().unwrap_or_else(|| format!("{scheme}://{}", serve.addr));
    require_links(smtp_url.as_ref(), &base)?;
    let roots = ExtraRoots::read(serve.targets.extra_roots.as_deref())?;
    Ok(SystemSetup {
        allowed: serve.targets.allowed_targets(),
        base_url: format!("{}/api/v1", base.trim_end_matches('/')),
        settings: DelivererSettings {
            permits: serve.permits.max(1),
            caps: HostCaps {
                per_firm_and_host: serve.per_firm_and_host.max(1),
                per_host: serve.per_host.max(1),
            },
            scale,
            retention: retention_times(serve),
            ..DelivererSettings::default()
        },
        mailer: configured_mailer(serve, smtp_url.as_ref(), &roots)?,
        sender: sender_address(serve)?,
        extra_roots: roots.certificates.clone(),
        trusted_proxies: serve.trusted_proxies.clone(),
        patience: InviteWait::default(),
        notary: Some(storage.signing_notary()?),
        archive: serve.archive_url.as_ref().map(ArchivePlace::open).transpose()?,
        kept: RangeRetention {
            log: keep_traffic(serve, "--keep-log-days", serve.keep_log_days)?,
            history: keep_traffic(serve, "--keep-history-days", serve.keep_history_days)?,
        },
        verifications: verification_schedule(serve),
        sending: if serve.paused { SendingMode::Held } else { SendingMode::On },
        batchers: CallBatchers::default(),
        provider: provider::configured_provider(&serve.oidc, &roots.certificates)?.map(Arc::new),
        notices: notice_target(serve)?,
        egress_bind: egress_addresses(serve)?,
        egress: serve.egress_bind.clone(),
        integrations_url: serve.integrations_url.clone(),
        cell: serve.cell,
    })
}

impl TargetArgs {
    fn allowed_targets(&self) -> AllowedTargets {
        let targets = AllowedTargets::new(self.allow_targets.clone());
        if self.allow_http_targets { targets.with_http() } else { targets }
    }

    /// The setup of a command that calls a target.
    pub(crate) fn command_setup(&self) -> anyhow::Result<SystemSetup> {
        let roots = ExtraRoots::read(self.extra_roots.as_deref())?;
        let quiet = SystemSetup::for_commands(UNUSED_BASE_URL)?;
        Ok(SystemSetup {
            allowed: self.allowed_targets(),
            extra_roots: roots.certificates,
            ..quiet
        })
    }
}

fn verification_schedule(serve: &ServeArgs) -> Option<VerificationSchedule> {
    let hours = u64::from(serve.verify_hours);
    (hours > 0).then(|| VerificationSchedule {
        interval: Duration::from_secs(hours * 3_600),
        reread_within: Duration::from_secs(u64::from(serve.reverify_days) * 86_400),
    })
}

/// Days for which a delivery may still be tried or sent again after its body was kept.
const LAST_TRIES_DAYS: u32 = 35;

/// The age at which ranges of the log or of history leave. A replay finds each delivery that it
/// sends in history, and needs its events.
fn keep_traffic(
    serve: &ServeArgs,
    flag: &str,
    days: Option<u32>,
) -> anyhow::Result<Option<Duration>> {
    let Some(days) = days else { return Ok(None) };
    let least = serve.keep_failed_days.max(serve.keep_delivered_days) + LAST_TRIES_DAYS;
    if days < least {
        bail!("{flag}: at least {least}, which is {LAST_TRIES_DAYS} more than bodies are kept");
    }
    Ok(Some(Duration::from_secs(u64::from(days) * 86_400)))
}

fn retention_times(serve: &ServeArgs) -> Retention {
    let days = |days: u32| Duration::from_secs(u64::from(days) * 86_400);
    Retention {
        delivered: days(serve.keep_delivered_days),
        failed: days(serve.keep_failed_days),
        answers: days(serve.keep_answers_days),
        closed_firm: days(serve.closed_firm_days),
        responses_days: serve.responses.keep_responses_days,
    }
}

/// The mail server, of the flag or of its file. No error repeats the URL, which holds a password.
fn smtp_url(serve: &ServeArgs) -> anyhow::Result<Option<SmtpUrl>> {
    if serve.smtp_url.is_some() {
        return Ok(serve.smtp_url.clone());
    }
    let url = read_secret(None, serve.smtp_url_file.as_deref())?;
    url.map(|url| url.parse()).transpose().context("--smtp-url-file")
}

/// The addresses of `--egress-bind` that this process uses. A process that sends must have them
/// all. Another one uses those that its machine has: it sends samples and tests only.
fn egress_addresses(serve: &ServeArgs) -> anyhow::Result<Vec<IpAddr>> {
    let sends = serve.role().sends_deliveries();
    let mut bound = Vec::new();
    for address in &serve.egress_bind {
        match std::net::TcpListener::bind((*address, 0)) {
            Ok(_) => bound.push(*address),
            Err(error) if sends => {
                return Err(error).with_context(|| format!("--egress-bind {address}"));
            }
            Err(_) => {}
        }
    }
    Ok(bound)
}

/// The operator's URL for notices. No error repeats the secret.
fn notice_target(serve: &ServeArgs) -> anyhow::Result<Option<NoticeTarget>> {
    let Some(url) = &serve.notices_url else {
        return Ok(None);
    };
    Target::parse(url, &serve.targets.allowed_targets()).context("--notices-url")?;
    let given = read_secret(serve.notices_secret.clone(), serve.notices_secret_file.as_deref())?;
    let text = given.context("--notices-url needs --notices-secret or --notices-secret-file")?;
    let secret = WebhookSecret::parse(text.trim()).context("--notices-secret")?;
    Ok(Some(NoticeTarget { url: url.as_str().into(), secret }))
}

/// Requires an https address for real mail: people follow the links in it.
fn require_links(smtp_url: Option<&SmtpUrl>, base: &str) -> anyhow::Result<()> {
    let leaves = smtp_url.is_some_and(|url| !url.is_this_machine());
    if leaves && !base.starts_with("https://") {
        bail!("--smtp-url needs --base-url with https: every mail links to the unsubscribe page");
    }
    Ok(())
}

/// Roots to trust beside the platform's: the PEM text, and the parsed certificates.
#[derive(Default)]
struct ExtraRoots {
    pem: Option<Vec<u8>>,
    certificates: Vec<CertificateDer<'static>>,
}

impl ExtraRoots {
    fn read(path: Option<&Path>) -> anyhow::Result<Self> {
        let Some(path) = path else {
            return Ok(Self::default());
        };
        let named = || format!("--extra-roots {}", path.display());
        let pem = std::fs::read(path).with_context(named)?;
        let certificates = CertificateDer::pem_slice_iter(&pem).collect::<Result<Vec<_>, _>>();
        let certificates = certificates.with_context(named)?;
        if certificates.is_empty() {
            bail!("{}: no certificates in PEM", named());
        }
        Ok(Self { pem: Some(pem), certificates })
    }
}

fn configured_mailer(
    serve: &ServeArgs,
    smtp_url: Option<&SmtpUrl>,
    roots: &ExtraRoots,
) -> anyhow::Result<Mailer> {
    if serve.paused {
        return Ok(Mailer::switched_off());
    }
    match (smtp_url, &serve.mail_dir) {
        (Some(url), _) => {
            let extra_roots = roots.pem.clone();
            let settings = SmtpSettings { extra_roots, ..SmtpSettings::default() };
            Mailer::over_smtp(url, &settings).context("--smtp-url")
        }
        (None, Some(folder)) => {
            tracing::warn!(folder = %folder.display(), "mails are written as files, and not sent");
            Ok(Mailer::into_folder(folder))
        }
        (None, None) => {
            if serve.role().serves_callers() {
                tracing::warn!("no mail server: invites are answered with send_failed");
            }
            Ok(Mailer::switched_off())
        }
    }
}

fn sender_address(serve: &ServeArgs) -> anyhow::Result<SenderAddress> {
    match &serve.mail_from {
        Some(sender) => Ok(sender.clone()),
        None => DEFAULT_MAIL_FROM.parse().context("the sender of mails"),
    }
}
