//! `openapi`: prints the description that the public door serves. It needs no database.

use api::openapi::document;

use crate::args::OpenapiArgs;
use crate::output::print_json;

pub(crate) fn run(openapi: &OpenapiArgs) -> anyhow::Result<()> {
    let document = document(&format!("{}/api/v1", openapi.base_url.trim_end_matches('/')));
    print_json(&document);
    Ok(())
}
