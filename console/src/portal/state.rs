//! The state of the portal.

use std::sync::Arc;

use api::Service;

/// The data that all pages share.
pub(crate) struct PortalState {
    pub(super) service: Service,
}

/// The state as handlers get it.
pub(super) type SharedPortal = Arc<PortalState>;
