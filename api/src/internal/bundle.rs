//! `/internal/v1/firms/{firm}/audit/export` as a bundle, and as its cover. Both stand under a
//! signed checkpoint that exists: a call of this API signs nothing.

use std::sync::Arc;

use auditor::bundle::{BundlePages, ExportSelection};
use auditor::cover::CoverPage;
use axum::body::{Body, Bytes};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, CONTENT_TYPE,
};
use axum::response::{IntoResponse, Response};
use domain::values::Timestamp;
use futures::stream;
use projector::firms;
use uuid::Uuid;

use crate::error::Error;
use crate::service::Service;

/// The cover has its own style, and nothing else.
const COVER_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

/// A bundle before its first part.
pub(super) struct BegunBundle {
    pages: BundlePages,
    /// The firm of the bundle.
    firm_id: Uuid,
    /// The name of its file.
    name: String,
}

impl BegunBundle {
    /// A bundle under the checkpoint with this number, or under the newest.
    pub(super) async fn new(
        service: &Service,
        asked: ExportSelection,
        number: Option<u64>,
    ) -> Result<Self, Error> {
        let signed = service.audit.read_checkpoint(number).await?;
        let name = file_name(asked, signed.checkpoint.number);
        let pages = service.audit.bundle_under(service.store.pool(), signed, asked).await?;
        Ok(Self { pages, firm_id: asked.firm_id, name })
    }
}

/// Streams a bundle.
pub(super) fn file(
    service: Arc<Service>,
    BegunBundle { pages, name, .. }: BegunBundle,
) -> Response {
    let next = |(service, mut pages): (Arc<Service>, BundlePages)| async move {
        let text = next_part(&service, &mut pages).await?;
        Ok::<_, Error>(text.map(|text| (Bytes::from(text), (service, pages))))
    };
    let body = Body::from_stream(stream::try_unfold((service, pages), next));
    let attached = format!("attachment; filename=\"{name}\"");
    let headers = [
        (CONTENT_TYPE, "application/x-ndjson".to_owned()),
        (CONTENT_DISPOSITION, attached),
        (CACHE_CONTROL, "no-store".to_owned()),
    ];
    (headers, body).into_response()
}

/// Shows the cover of the bundle that [`file()`] streams.
pub(super) async fn cover(
    service: Arc<Service>,
    BegunBundle { mut pages, firm_id, name }: BegunBundle,
) -> Result<Response, Error> {
    while next_part(&service, &mut pages).await?.is_some() {}
    let bundle = pages.summary()?;
    let firm_name = firms::name(service.store.pool(), firm_id).await?;
    let made_at = service.clock.now();
    let page = CoverPage { bundle: &bundle, file: &name, firm_name: firm_name.as_deref(), made_at };
    let headers = [
        (CONTENT_TYPE, "text/html; charset=utf-8"),
        (CONTENT_SECURITY_POLICY, COVER_POLICY),
        (CACHE_CONTROL, "no-store"),
    ];
    Ok((headers, page.html()).into_response())
}

/// The next part. No connection is held while the caller reads.
async fn next_part(service: &Service, pages: &mut BundlePages) -> Result<Option<String>, Error> {
    let mut connection = service.store.pool().acquire().await?;
    Ok(pages.next(&mut connection).await?)
}

/// The name of a bundle's file: firm, days and checkpoint.
fn file_name(asked: ExportSelection, number: u64) -> String {
    let day = |at: Option<Timestamp>| at.map_or(String::new(), |at| format!("-{}", at.day()));
    let ExportSelection { firm_id, since, until } = asked;
    format!("audit-{firm_id}{}{}-{number}.bundle", day(since), day(until))
}
