//! Reads the log of one pod from its kubelet, through the API server.

use std::time::Duration;

use futures::future::BoxFuture;
use futures::{AsyncBufReadExt as _, FutureExt as _};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::SignedDuration;
use kube::Api;
use kube::api::LogParams;
use tokio::sync::mpsc::Sender;
use tokio::sync::watch::Receiver;
use tokio::time::sleep;

use super::log_lines::LogLines;
use super::pod_selection::{SelectedPod, has_stopped};
use super::unreadable_log::UnreadableLog;
use crate::cluster::is_simulated;
use crate::output::warn;

/// Greatest part of a line that is held in memory, in bytes.
const MAX_LINE_PART: usize = 64 * 1024;
/// Size of one piece of output, in bytes.
const BATCH_SIZE: usize = 32 * 1024;
/// Pause before a broken stream is retried.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
/// Longest silence of a stream after its container has stopped.
/// A kubelet ends the stream then, unless the kubelet has died; kwok never ends a stream.
const SILENCE_LIMIT: Duration = Duration::from_secs(5);

/// The requested part of a log.
#[derive(Clone, Debug, Default)]
pub struct LogRange {
    /// Number of last lines.
    pub tail: Option<i64>,
    /// Only lines of the last seconds.
    pub since_seconds: Option<i64>,
    /// Show the time of each line.
    pub timestamps: bool,
    /// Follow the log until it ends.
    pub follow: bool,
}

/// Sends the log to `out`, until it ends.
/// `prefix` is written before each line. `stopped` tells whether the container has stopped; the caller
/// drops its sender when the pod is gone.
///
/// # Errors
/// If the log cannot be read. A followed stream that breaks is resumed where it broke, except on a
/// simulated node.
pub async fn stream_log(
    pods: Api<Pod>,
    chosen: SelectedPod,
    part: LogRange,
    prefix: String,
    mut stopped: Option<Receiver<bool>>,
    out: Sender<Vec<u8>>,
) -> Result<(), UnreadableLog> {
    let client = pods.clone().into_client();
    let unreadable = |error| UnreadableLog::new(&client, &chosen, error);
    let mut lines = LogLines::new(prefix, part.follow && !part.timestamps);
    let mut params = LogParams {
        container: Some(chosen.container.clone()),
        follow: part.follow,
        previous: chosen.before_restart,
        since_seconds: part.since_seconds,
        tail_lines: part.tail,
        // A followed log needs timestamps to resume after a broken stream.
        timestamps: part.timestamps || part.follow,
        ..LogParams::default()
    };
    let mut skip_shown = false;
    let mut is_reported = false;
    loop {
        let ended = match pods.log_stream(&chosen.pod.name, &params).await {
            Ok(stream) => {
                is_reported = false;
                let (client, node) = (client.clone(), chosen.pod.node.clone());
                let is_simulated = async move {
                    match node {
                        Some(node) => is_simulated(&client, &node).await,
                        None => false,
                    }
                };
                let silence = (&mut stopped, is_simulated.boxed());
                forward_stream(stream, &mut lines, skip_shown, silence, &out).await
            }
            Err(error) if !part.follow || is_permanent(&error) => {
                return Err(unreadable(error).await);
            }
            Err(error) => {
                if !std::mem::replace(&mut is_reported, true) {
                    let failure = unreadable(error).await;
                    if failure.is_simulated {
                        return Err(failure);
                    }
                    if let Some(reason) = failure.unreachable_kubelet() {
                        warn(&format!("note: {reason}; `trellis logs` retries"));
                    }
                }
                StreamEnd::Broken
            }
        };
        match ended {
            StreamEnd::ReaderGone => return Ok(()),
            StreamEnd::Complete if !part.follow => return Ok(()),
            StreamEnd::Complete if has_ended(&pods, &chosen).await => return Ok(()),
            // A log that is not followed is not requested twice.
            StreamEnd::Broken if !part.follow => {
                let error = std::io::Error::other("the log stream was interrupted");
                return Err(unreadable(kube::Error::Service(error.into())).await);
            }
            StreamEnd::Complete | StreamEnd::Broken => {}
        }
        sleep(RETRY_PAUSE).await;
        lines.restart_stream();
        if let Some(last) = lines.last_time() {
            skip_shown = true;
            params.since_seconds = None;
            params.tail_lines = None;
            // The API rounds this time to seconds. The timestamps then identify lines that come
            // twice.
            params.since_time = last.checked_sub(SignedDuration::from_secs(1)).ok();
        }
    }
}

enum StreamEnd {
    /// The log or the container has ended.
    Complete,
    /// The connection broke.
    Broken,
    /// The reader has closed the channel.
    ReaderGone,
}

/// Forwards one stream.
/// `stopped` reports that the container has stopped, and `is_simulated` that kwok simulates its node. kwok never
/// closes a followed stream. A kubelet closes it, even if the last bytes come slowly.
async fn forward_stream(
    stream: impl futures::AsyncBufRead,
    lines: &mut LogLines,
    is_reconnect: bool,
    (stopped, mut is_simulated): (&mut Option<Receiver<bool>>, BoxFuture<'_, bool>),
    out: &Sender<Vec<u8>>,
) -> StreamEnd {
    futures::pin_mut!(stream);
    let mut batch = Vec::new();
    // A line without its newline yet.
    let mut unfinished = Vec::new();
    let ended = loop {
        let bytes = match stream.fill_buf().now_or_never() {
            Some(bytes) => bytes,
            // No data is available: send the collected output before waiting for more.
            None => {
                if !batch.is_empty() && out.send(std::mem::take(&mut batch)).await.is_err() {
                    return StreamEnd::ReaderGone;
                }
                tokio::select! {
                    bytes = stream.fill_buf() => bytes,
                    () = await_silence_after_stop(stopped) => {
                        if (&mut is_simulated).await {
                            break StreamEnd::Complete;
                        }
                        // The check runs once: from now on only the end of the stream counts.
                        *stopped = None;
                        continue;
                    }
                }
            }
        };
        let used = match bytes {
            Ok([]) => break StreamEnd::Complete,
            Ok(bytes) => {
                for part in bytes.split_inclusive(|byte| *byte == b'\n') {
                    unfinished.extend_from_slice(part);
                    if unfinished.ends_with(b"\n") || unfinished.len() >= MAX_LINE_PART {
                        lines.add(&unfinished, is_reconnect, &mut batch);
                        unfinished.clear();
                    }
                }
                bytes.len()
            }
            Err(_) => break StreamEnd::Broken,
        };
        stream.consume_unpin(used);
        if batch.len() >= BATCH_SIZE && out.send(std::mem::take(&mut batch)).await.is_err() {
            return StreamEnd::ReaderGone;
        }
    };
    // After a broken stream the kubelet sends the incomplete line again.
    if matches!(ended, StreamEnd::Complete) {
        if !unfinished.is_empty() {
            lines.add(&unfinished, is_reconnect, &mut batch);
        }
        lines.end_line(&mut batch);
    }
    if !batch.is_empty() && out.send(batch).await.is_err() {
        return StreamEnd::ReaderGone;
    }
    ended
}

/// Returns when the container has stopped and [`SILENCE_LIMIT`] has passed since.
async fn await_silence_after_stop(stopped: &mut Option<Receiver<bool>>) {
    let Some(stopped) = stopped else {
        return std::future::pending().await;
    };
    // A dropped sender is an error here: the pod is gone.
    let _ = stopped.wait_for(|stopped| *stopped).await;
    sleep(SILENCE_LIMIT).await;
}

/// Returns true if a retry cannot help.
fn is_permanent(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if matches!(status.code, 400..=499) && status.code != 429)
}

/// Returns true if the container has ended or its pod is gone.
/// If the API server cannot answer, this returns false, and the caller retries the stream.
async fn has_ended(pods: &Api<Pod>, chosen: &SelectedPod) -> bool {
    let pod = match pods.get_opt(&chosen.pod.name).await {
        Ok(Some(pod)) if pod.metadata.uid.as_deref() == Some(chosen.uid.as_str()) => pod,
        Ok(_) => return true,
        Err(_) => return false,
    };
    has_stopped(&pod, &chosen.container)
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::future::ready;
    use futures::{StreamExt as _, TryStreamExt as _, stream};
    use tokio::sync::{mpsc, watch};
    use tokio::time::Instant;

    #[tokio::test(start_paused = true)]
    async fn a_silent_stream_ends_soon_after_its_container_has_stopped() {
        let hour = Duration::from_secs(3600);
        let (stop, stopped) = watch::channel(false);
        let (out, mut pieces) = mpsc::channel(1);
        let line = stream::iter([Ok::<_, std::io::Error>(b"a\n".to_vec())]);
        let silent = line.chain(stream::pending()).into_async_read();
        let (mut lines, mut stopped) = (LogLines::new(String::new(), false), Some(stopped));
        let began = Instant::now();
        let read = forward_stream(
            silent,
            &mut lines,
            false,
            (&mut stopped, ready(true).boxed()),
            &out,
        );
        let stop = async {
            sleep(hour).await;
            stop.send_replace(true);
        };
        let (ended, ()) = futures::join!(read, stop);
        assert!(matches!(ended, StreamEnd::Complete));
        assert_eq!(
            began.elapsed().as_secs(),
            hour.saturating_add(SILENCE_LIMIT).as_secs()
        );
        assert_eq!(pieces.recv().await.unwrap(), b"a\n");
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_continues_while_a_stopped_container_writes() {
        let (stop, stopped) = watch::channel(false);
        // The pod is gone.
        drop(stop);
        let (out, mut pieces) = mpsc::channel(16);
        let slow = stream::iter(0..8).then(async |line| {
            sleep(SILENCE_LIMIT.saturating_sub(Duration::from_secs(1))).await;
            Ok::<_, std::io::Error>(format!("{line}\n"))
        });
        let slow = Box::pin(slow).into_async_read();
        let (mut lines, mut stopped) = (LogLines::new(String::new(), false), Some(stopped));
        let ended = forward_stream(
            slow,
            &mut lines,
            false,
            (&mut stopped, ready(true).boxed()),
            &out,
        )
        .await;
        assert!(matches!(ended, StreamEnd::Complete));
        drop(out);
        let mut text = Vec::new();
        while let Some(piece) = pieces.recv().await {
            text.extend(piece);
        }
        assert_eq!(text, b"0\n1\n2\n3\n4\n5\n6\n7\n");
    }

    #[tokio::test(start_paused = true)]
    async fn a_kubelet_may_be_silent_before_the_last_bytes() {
        let (stop, stopped) = watch::channel(true);
        let (out, mut pieces) = mpsc::channel(16);
        let stream = stream::once(async {
            sleep(SILENCE_LIMIT.saturating_mul(10)).await;
            Ok::<_, std::io::Error>(b"last\n".to_vec())
        });
        let stream = Box::pin(stream).into_async_read();
        let (mut lines, mut stopped) = (LogLines::new(String::new(), false), Some(stopped));
        let is_simulated = ready(false).boxed();
        let ended = forward_stream(
            stream,
            &mut lines,
            false,
            (&mut stopped, is_simulated),
            &out,
        )
        .await;
        assert!(matches!(ended, StreamEnd::Complete));
        drop((stop, out));
        assert_eq!(pieces.recv().await.unwrap(), b"last\n");
    }
}
