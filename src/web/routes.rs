//! What there is to see.

use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::middleware;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::sync::{mpsc, oneshot};

use super::guard::{self, Guard};
use crate::report::metrics::{self, Snapshot};

/// How long an answer may take.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// Asks the coordinator how things stand. It answers between two rounds, and waits for nobody.
pub type Measure = mpsc::Sender<oneshot::Sender<Box<Snapshot>>>;

/// All routes, behind the guard.
pub fn routes(guard: Guard, measure: Measure) -> Router {
    Router::new()
        .route("/healthz", get(healthz))
        .route("/metrics", get(metrics_page))
        .fallback(nothing)
        .with_state(measure)
        // The last layer is the first that a request meets.
        .layer(middleware::from_fn_with_state(guard, guard::admit))
}

/// The process is there and its loop answers.
async fn healthz(State(measure): State<Measure>) -> Response {
    match snapshot(&measure).await {
        Some(_) => "ok\n".into_response(),
        None => late(),
    }
}

async fn metrics_page(State(measure): State<Measure>) -> Response {
    match snapshot(&measure).await {
        Some(now) => {
            ([(CONTENT_TYPE, metrics::CONTENT_TYPE)], metrics::render(&now)).into_response()
        }
        None => late(),
    }
}

async fn nothing() -> Response {
    (StatusCode::NOT_FOUND, "there is /metrics and /healthz\n").into_response()
}

async fn snapshot(measure: &Measure) -> Option<Box<Snapshot>> {
    let (reply, answer) = oneshot::channel();
    tokio::time::timeout(ANSWER_MAX, async {
        measure.send(reply).await.ok()?;
        answer.await.ok()
    })
    .await
    .ok()
    .flatten()
}

fn late() -> Response {
    (StatusCode::SERVICE_UNAVAILABLE, "the coordinator does not answer in time\n").into_response()
}
