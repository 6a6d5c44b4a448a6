//! The token in each form of a session. A form of another session or of another site has none that
//! fits.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use vault::IdentityKey;

/// The token of the forms with this name.
pub(crate) fn sign_form(identity: &IdentityKey, form_name: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(identity.sign_session(form_name))
}

/// Whether this text is the token of the forms with this name.
pub(crate) fn is_signed_form(identity: &IdentityKey, form_name: &[u8], text: &str) -> bool {
    let signature = URL_SAFE_NO_PAD.decode(text).unwrap_or_default();
    identity.has_signed_session(form_name, &signature)
}
