//! `openapi`: prints the description that the public door serves. It needs no database.

use std::io::{Write, stdout};

use anyhow::Context;
use api::openapi::text;

use crate::args::OpenapiArgs;

pub(crate) fn run(openapi: &OpenapiArgs) -> anyhow::Result<()> {
    let text = text(&format!("{}/api/v1", openapi.base_url.trim_end_matches('/')));
    writeln!(stdout(), "{text}").context("writing the description")
}
