//! `POST /api/open`: the code of a link becomes the key of the page.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::extract::rejection::JsonRejection;
use axum::response::Response;
use http::HeaderMap;
use serde::{Deserialize, Serialize};

use crate::access::Exchange;
use crate::answer::{self, Refusal};
use crate::server::App;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OpenRequest {
    code: String,
}

#[derive(Debug, Serialize)]
struct OpenAnswer {
    key: String,
}

pub(crate) async fn open_page(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    request: Result<Json<OpenRequest>, JsonRejection>,
) -> Result<Response, Refusal> {
    let Json(request) = request.map_err(|error| Refusal::invalid(error.body_text()))?;
    let Some(links) = &app.links else {
        return Err(Refusal::not_found(
            "this page has no links: its proxy signs users in",
        ));
    };
    let exchange = links.exchange(&request.code);
    match exchange.map_err(|error| Refusal::internal(error.to_string()))? {
        Exchange::Key(key) => answer::json(&headers, &OpenAnswer { key }),
        Exchange::Unknown => Err(Refusal::no_key(
            "this link is too old: press Enter in the terminal of `trellis dashboard` for a new one",
        )),
        Exchange::Reused => {
            app.warn("the link was opened a second time. If you did not do that, another user of this machine may have read it. All pages are closed; press Enter for a new link");
            Err(Refusal::no_key(
                "this link was opened before, so all pages were closed: press Enter in the terminal of `trellis dashboard` for a new link",
            ))
        }
    }
}
