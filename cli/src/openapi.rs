//! `openapi`: prints the description that the public door serves. It needs no database.

use api::openapi::document_text;

use crate::args::OpenapiArgs;
use crate::output::print_json_text;

pub(crate) fn run(openapi: &OpenapiArgs) -> anyhow::Result<()> {
    print_json_text(&document_text(&format!("{}/api/v1", openapi.base_url.trim_end_matches('/'))));
    Ok(())
}
