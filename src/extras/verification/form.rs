//! The form for contract verification. It uses the dashboard's palette and its icon.

use axum::Router;
use axum::response::{Redirect, Response};
use axum::routing::get;
use bytes::Bytes;

use crate::extras::static_files::{StaticFile, page_response, serve_files};

const VERIFICATION_FORM: &str = include_str!("verify.html");

/// Resources of the form. It hashes with noble-hashes, whose files are unchanged copies of the published ones.
const FORM_ASSETS: [StaticFile; 7] = [
    StaticFile::css("/verify/style.css", include_str!("verify/style.css")),
    StaticFile::js("/verify/page.js", include_str!("verify/page.js")),
    StaticFile::js("/verify/files.js", include_str!("verify/files.js")),
    StaticFile::js("/verify/submit.js", include_str!("verify/submit.js")),
    StaticFile::js("/verify/noble/sha3.js", include_str!("verify/noble/sha3.js")),
    StaticFile::js("/verify/noble/_u64.js", include_str!("verify/noble/_u64.js")),
    StaticFile::js("/verify/noble/utils.js", include_str!("verify/noble/utils.js")),
];

/// Form for contract verification
///
/// It uses the dashboard's palette.
#[utoipa::path(
    get,
    path = "/verify",
    operation_id = "showVerificationForm",
    tag = "Pages",
    responses(
        (status = 200, description = "The form.", content_type = "text/html", body = String,
            headers(("ETag"), ("Cache-Control"), ("Content-Security-Policy"))),
    )
)]
pub(super) async fn verification_form() -> Response {
    page_response(Bytes::from_static(VERIFICATION_FORM.as_bytes()))
}

/// Serves the resources of the form for contract verification.
pub(super) fn form_assets() -> Router {
    let to_form = || async { Redirect::permanent("../verify") };
    serve_files(FORM_ASSETS).route("/verify/", get(to_form))
}
