//! The log of one pod, read from its kubelet through the API server.

use std::time::Duration;

use futures::{AsyncBufReadExt as _, FutureExt as _};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::SignedDuration;
use kube::Api;
use kube::api::LogParams;
use tokio::sync::mpsc::Sender;
use tokio::time::sleep;

use super::choice::Chosen;
use super::lines::Lines;

/// Most bytes of a line that are held at once.
const PART: usize = 64 * 1024;
/// Bytes that are passed on at once.
const BATCH: usize = 32 * 1024;
/// Between a stream that broke and its next try.
const PAUSE: Duration = Duration::from_secs(1);

/// What of a log is asked for.
#[derive(Clone, Debug, Default)]
pub struct Part {
    /// Its last lines.
    pub tail: Option<i64>,
    /// What was written in the last seconds.
    pub since_seconds: Option<i64>,
    /// Each line with its time.
    pub timestamps: bool,
    /// What is still to be written, too.
    pub follow: bool,
}

/// Passes the log on, until its end. `prefix` stands before each line.
///
/// # Errors
/// If the log cannot be read. A stream that breaks while it is followed is taken up again where it
/// broke.
pub async fn read(
    pods: Api<Pod>,
    chosen: Chosen,
    part: Part,
    prefix: String,
    out: Sender<Vec<u8>>,
) -> Result<(), kube::Error> {
    let mut lines = Lines::new(prefix, part.follow && !part.timestamps);
    let mut params = LogParams {
        container: Some(chosen.container.clone()),
        follow: part.follow,
        previous: chosen.before_restart,
        since_seconds: part.since_seconds,
        tail_lines: part.tail,
        // Who follows knows by them where to go on.
        timestamps: part.timestamps || part.follow,
        ..LogParams::default()
    };
    let mut again = false;
    loop {
        let ended = match pods.log_stream(&chosen.pod.name, &params).await {
            Ok(stream) => pass_on(stream, &mut lines, again, &out).await,
            Err(error) if !part.follow || is_final(&error) => return Err(error),
            Err(_) => Ended::Broken,
        };
        match ended {
            Ended::Unread => return Ok(()),
            Ended::Whole if !part.follow => return Ok(()),
            Ended::Whole if has_ended(&pods, &chosen).await => return Ok(()),
            // What was cut off without being followed is not asked for twice.
            Ended::Broken if !part.follow => {
                let error = std::io::Error::other("the stream of the log broke off");
                return Err(kube::Error::Service(error.into()));
            }
            Ended::Whole | Ended::Broken => {}
        }
        sleep(PAUSE).await;
        lines.anew();
        if let Some(last) = lines.last() {
            again = true;
            params.since_seconds = None;
            params.tail_lines = None;
            // It is rounded to seconds on its way: what comes twice is left out by its time.
            params.since_time = last.checked_sub(SignedDuration::from_secs(1)).ok();
        }
    }
}

enum Ended {
    /// The log, or the container, has ended.
    Whole,
    /// The connection has.
    Broken,
    /// Nobody reads on.
    Unread,
}

async fn pass_on(
    stream: impl futures::AsyncBufRead,
    lines: &mut Lines,
    again: bool,
    out: &Sender<Vec<u8>>,
) -> Ended {
    futures::pin_mut!(stream);
    let mut batch = Vec::new();
    // A line whose end has not come.
    let mut held = Vec::new();
    let ended = loop {
        let bytes = match stream.fill_buf().now_or_never() {
            Some(bytes) => bytes,
            // Nothing is there: what was read goes out before more is waited for.
            None => {
                if !batch.is_empty() && out.send(std::mem::take(&mut batch)).await.is_err() {
                    return Ended::Unread;
                }
                stream.fill_buf().await
            }
        };
        let used = match bytes {
            Ok([]) => break Ended::Whole,
            Ok(bytes) => {
                for part in bytes.split_inclusive(|byte| *byte == b'\n') {
                    held.extend_from_slice(part);
                    if held.ends_with(b"\n") || held.len() >= PART {
                        lines.add(&held, again, &mut batch);
                        held.clear();
                    }
                }
                bytes.len()
            }
            Err(_) => break Ended::Broken,
        };
        stream.consume_unpin(used);
        if batch.len() >= BATCH && out.send(std::mem::take(&mut batch)).await.is_err() {
            return Ended::Unread;
        }
    };
    // Half a line of a broken stream comes again as a whole.
    if matches!(ended, Ended::Whole) {
        if !held.is_empty() {
            lines.add(&held, again, &mut batch);
        }
        lines.end(&mut batch);
    }
    if !batch.is_empty() && out.send(batch).await.is_err() {
        return Ended::Unread;
    }
    ended
}

/// What no new try would change.
fn is_final(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if matches!(status.code, 400..=499) && status.code != 429)
}

/// True if nothing more comes: the container has ended, or its pod is gone. Where nobody can say,
/// the stream is tried again.
async fn has_ended(pods: &Api<Pod>, chosen: &Chosen) -> bool {
    let pod = match pods.get_opt(&chosen.pod.name).await {
        Ok(Some(pod)) if pod.metadata.uid.as_deref() == Some(chosen.uid.as_str()) => pod,
        Ok(_) => return true,
        Err(_) => return false,
    };
    let status = pod.status.unwrap_or_default();
    if matches!(status.phase.as_deref(), Some("Succeeded" | "Failed")) {
        return true;
    }
    let inits = status.init_container_statuses.unwrap_or_default();
    let main = status.container_statuses.unwrap_or_default();
    let attached = status.ephemeral_container_statuses.unwrap_or_default();
    let own = inits
        .into_iter()
        .chain(main)
        .chain(attached)
        .find(|c| c.name == chosen.container);
    let state = own.and_then(|own| own.state);
    state.is_some_and(|state| state.terminated.is_some())
}
