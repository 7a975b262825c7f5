//! The server of the page.

use std::sync::Arc;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post};
use http::{HeaderName, HeaderValue, Method, StatusCode, header};
use tokio::net::TcpListener;

use crate::access::AccessLinks;
use crate::answer::Refusal;
use crate::assets::Assets;
use crate::credential::Credentials;
use crate::guard::{self, KEY_HEADER, OwnOrigin};
use crate::live::Feeds;
use crate::routes;

/// Largest body of a request.
const MAX_BODY_BYTES: usize = 256 << 10;

/// Restricts the page to its own files and data. No text of a cluster becomes markup (<https://www.w3.org/TR/CSP3/>, <https://www.w3.org/TR/trusted-types/>).
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'";

/// The server of the page.
pub struct Dashboard {
    app: Arc<App>,
}

impl std::fmt::Debug for Dashboard {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Dashboard").finish_non_exhaustive()
    }
}

/// The state of the server.
pub(crate) struct App {
    pub(crate) credentials: Credentials,
    /// None: a proxy signs users in.
    pub(crate) links: Option<Arc<AccessLinks>>,
    pub(crate) feeds: Feeds,
    origin: OwnOrigin,
    assets: Assets,
    warn: Box<dyn Fn(&str) + Send + Sync>,
}

impl App {
    /// Warns the person who has started the server.
    pub(crate) fn warn(&self, text: &str) {
        (self.warn)(text);
    }
}

impl Dashboard {
    /// A server for the user of a kubeconfig. Each request needs the key of a page, which comes
    /// from one of these links.
    #[must_use]
    pub fn local(
        credentials: crate::LocalCredentials,
        links: Arc<AccessLinks>,
        warn: impl Fn(&str) + Send + Sync + 'static,
    ) -> Self {
        Self::new(
            Credentials::Local(credentials),
            OwnOrigin::Loopback,
            Some(links),
            Box::new(warn),
        )
    }

    /// A server behind a proxy, which signs users in under this URL and forwards their tokens.
    #[must_use]
    pub fn behind_proxy(
        credentials: crate::ForwardedCredentials,
        url: crate::PublicUrl,
        warn: impl Fn(&str) + Send + Sync + 'static,
    ) -> Self {
        Self::new(
            Credentials::Forwarded(Box::new(credentials)),
            OwnOrigin::Public(url),
            None,
            Box::new(warn),
        )
    }

    fn new(
        credentials: Credentials,
        origin: OwnOrigin,
        links: Option<Arc<AccessLinks>>,
        warn: Box<dyn Fn(&str) + Send + Sync>,
    ) -> Self {
        Self {
            app: Arc::new(App {
                credentials,
                links,
                feeds: Feeds::default(),
                origin,
                assets: Assets::load(),
                warn,
            }),
        }
    }

    /// Serves the page until the caller drops the future. Streams do not end by themselves, and they
    /// hold nothing that must be finished.
    ///
    /// # Errors
    /// If the listener fails.
    pub async fn serve(self, listener: TcpListener) -> anyhow::Result<()> {
        Ok(axum::serve(listener, self.router()).await?)
    }

    pub(crate) fn router(&self) -> Router {
        let app = self.app.clone();
        let api = Router::new()
            .route("/api/session", get(routes::describe_session))
            .route("/api/queue", get(routes::list_queue))
            .route("/api/nodes", get(routes::list_nodes))
            .route("/api/attempts", get(routes::list_attempts))
            .route("/api/namespaces", get(routes::list_namespaces))
            .route("/api/policies", get(routes::list_policies))
            .route("/api/plan", post(routes::plan_jobs))
            .route("/api/what-if", post(routes::forecast_changes))
            .route("/api/stream", get(routes::stream_changes))
            .route("/api/jobs/{namespace}/{name}", get(routes::job_report))
            .route("/api/jobs/{namespace}/{name}/why", get(routes::job_why))
            .layer(middleware::from_fn_with_state(app.clone(), require_key))
            .route("/api/open", post(routes::open_page))
            .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
            .layer(middleware::from_fn_with_state(app.clone(), check_origin));
        api.route("/healthz", get(async || "ok"))
            .fallback(serve_asset)
            .layer(middleware::from_fn_with_state(app.clone(), check_host))
            .layer(middleware::map_response(add_headers))
            .with_state(app)
    }
}

/// Refuses a request without the key of a page.
async fn require_key(
    State(app): State<Arc<App>>,
    request: Request,
    next: Next,
) -> Result<Response, Refusal> {
    if let Some(links) = &app.links {
        let key = request.headers().get(KEY_HEADER);
        let key = key.and_then(|key| key.to_str().ok()).unwrap_or_default();
        if !links.admits(key) {
            return Err(Refusal::no_key(
                "this page has no key: open the link that `trellis dashboard` prints, or press Enter in its terminal for a new link",
            ));
        }
    }
    Ok(next.run(request).await)
}

/// Refuses a request of another origin.
async fn check_origin(
    State(app): State<Arc<App>>,
    request: Request,
    next: Next,
) -> Result<Response, Refusal> {
    let (head, body) = request.into_parts();
    app.origin.check_origin(&head)?;
    guard::check_body(&head)?;
    Ok(next.run(Request::from_parts(head, body)).await)
}

/// Refuses a request for another host. Probes of the kubelet name the address of the pod.
async fn check_host(
    State(app): State<Arc<App>>,
    request: Request,
    next: Next,
) -> Result<Response, Refusal> {
    let (head, body) = request.into_parts();
    if head.uri.path() != "/healthz" {
        app.origin.check_host(&head)?;
    }
    Ok(next.run(Request::from_parts(head, body)).await)
}

async fn serve_asset(State(app): State<Arc<App>>, request: Request) -> Result<Response, Refusal> {
    let path = request.uri().path();
    if path.starts_with("/api/") {
        return Err(Refusal::not_found("there is no such route"));
    }
    if request.method() != Method::GET && request.method() != Method::HEAD {
        return Ok(StatusCode::METHOD_NOT_ALLOWED.into_response());
    }
    let answer = app.assets.answer(path, request.headers());
    answer.ok_or_else(|| Refusal::not_found("there is no such file"))
}

/// Adds the headers that restrict what the page may do, and what other pages may do with it.
async fn add_headers(mut response: Response) -> Response {
    let headers = [
        (header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        (
            HeaderName::from_static("cross-origin-opener-policy"),
            "same-origin",
        ),
        (
            HeaderName::from_static("cross-origin-resource-policy"),
            "same-origin",
        ),
    ];
    for (name, value) in headers {
        response
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests;
