//! Lists that are kept current, in front of an API server whose answers the test gives.

use std::collections::VecDeque;
use std::sync::Mutex;

use kube::{Client, Config};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use trellis_api::visibility::JobState;

use tokio::time::timeout;

use super::*;

/// An answer of the API server. A watch without `ends` stays open after its last event.
struct Answer {
    status: u16,
    lines: Vec<Value>,
    ends: bool,
}

fn answer(status: u16, lines: Vec<Value>) -> Answer {
    Answer {
        status,
        lines,
        ends: true,
    }
}

fn open_watch(lines: Vec<Value>) -> Answer {
    Answer {
        ends: false,
        ..answer(200, lines)
    }
}

/// Questions to the API server: `list`, or `watch` with the version.
type Questions = Arc<Mutex<Vec<String>>>;

/// A list whose API server gives these answers in turn.
async fn live_list(answers: Vec<Answer>) -> (LiveList<JobState>, Questions) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let questions = Questions::default();
    let asked = questions.clone();
    tokio::spawn(async move {
        let mut answers = VecDeque::from(answers);
        let mut open = Vec::new();
        while let Ok((mut connection, _)) = listener.accept().await {
            let question = read_question(&mut connection).await;
            asked.lock().unwrap().push(question);
            let answer = answers.pop_front().expect("one question more");
            let head = format!(
                "HTTP/1.1 {} Answer\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n",
                answer.status
            );
            let lines: String = answer
                .lines
                .iter()
                .map(|line| format!("{line}\n"))
                .collect();
            connection
                .write_all(format!("{head}{lines}").as_bytes())
                .await
                .unwrap();
            if !answer.ends {
                open.push(connection);
            }
        }
    });
    let config = Config::new(format!("http://{address}").parse().unwrap());
    let api = Api::all(Client::try_from(config).unwrap());
    let mut list = LiveList::new(api, None);
    list.poll_interval = Duration::from_millis(100);
    (list, questions)
}

async fn read_question(connection: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(connection.read_u8().await.unwrap());
    }
    let head = String::from_utf8(head).unwrap();
    let path = head.split_whitespace().nth(1).unwrap();
    if !path.contains("watch=true") {
        return "list".to_owned();
    }
    let version = path.split("resourceVersion=").nth(1).unwrap();
    format!("watch {}", version.split('&').next().unwrap())
}

fn job(name: &str, gpus: i64, version: &str) -> Value {
    let mut job = JobState {
        gpus,
        ..JobState::new("ml", name, "default")
    };
    job.metadata.resource_version = Some(version.to_owned());
    serde_json::to_value(job).unwrap()
}

fn list(version: &str, items: Vec<Value>) -> Answer {
    let list = json!({"apiVersion": "visibility.trellis.dev/v1alpha1", "kind": "JobStateList",
        "metadata": {"resourceVersion": version}, "items": items});
    answer(200, vec![list])
}

fn event(kind: &str, object: Value) -> Value {
    json!({"type": kind, "object": object})
}

fn status(code: u16) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "no", "reason": "no", "code": code})
}

async fn renew(list: &mut LiveList<JobState>) -> Vec<(String, i64)> {
    let answer = timeout(Duration::from_secs(20), list.renew()).await;
    let answer = answer.expect("no answer in time").unwrap();
    assert!(
        matches!(answer, VisibilityAnswer::Available(())),
        "{answer:?}"
    );
    let jobs = list.objects().values();
    assert!(
        jobs.clone()
            .all(|job| job.metadata.resource_version.is_none())
    );
    jobs.map(|job| (job.name_any(), job.gpus)).collect()
}

fn jobs(jobs: &[(&str, i64)]) -> Vec<(String, i64)> {
    jobs.iter()
        .map(|(name, gpus)| ((*name).to_owned(), *gpus))
        .collect()
}

#[tokio::test]
async fn events_change_the_listed_objects() {
    let events = vec![
        event("MODIFIED", job("a", 2, "7")),
        event("ADDED", job("c", 3, "7")),
        event("DELETED", job("b", 1, "8")),
    ];
    let first = list("7", vec![job("a", 1, "5"), job("b", 1, "5")]);
    let (mut list, questions) = live_list(vec![first, open_watch(events)]).await;
    assert_eq!(renew(&mut list).await, jobs(&[("a", 1), ("b", 1)]));
    assert_eq!(renew(&mut list).await, jobs(&[("a", 2), ("c", 3)]));
    assert_eq!(*questions.lock().unwrap(), ["list", "watch 7"]);
}

#[tokio::test]
async fn ended_watch_goes_on_from_its_last_version() {
    let bookmark = event(
        "BOOKMARK",
        json!({"apiVersion": "visibility.trellis.dev/v1alpha1", "kind": "JobState",
            "metadata": {"resourceVersion": "9"}}),
    );
    let (mut list, questions) = live_list(vec![
        list("7", vec![job("a", 1, "5")]),
        answer(200, vec![bookmark]),
        open_watch(vec![event("MODIFIED", job("a", 2, "10"))]),
    ])
    .await;
    renew(&mut list).await;
    assert_eq!(renew(&mut list).await, jobs(&[("a", 1)]));
    assert_eq!(renew(&mut list).await, jobs(&[("a", 2)]));
    assert_eq!(*questions.lock().unwrap(), ["list", "watch 7", "watch 9"]);
}

#[tokio::test]
async fn expired_version_and_broken_watch_lead_to_a_new_list() {
    for broken in [
        open_watch(vec![event("ERROR", status(410))]),
        answer(500, vec![status(500)]),
    ] {
        let (mut list, questions) = live_list(vec![
            list("7", vec![]),
            broken,
            list("9", vec![job("a", 1, "8")]),
        ])
        .await;
        renew(&mut list).await;
        assert_eq!(renew(&mut list).await, jobs(&[("a", 1)]));
        assert_eq!(*questions.lock().unwrap(), ["list", "watch 7", "list"]);
    }
}

/// An older operator does not serve watches, and an older role does not grant them.
#[tokio::test]
async fn objects_are_listed_at_an_interval_if_they_cannot_be_watched() {
    for code in [403, 405] {
        let (mut list, questions) = live_list(vec![
            list("7", vec![]),
            answer(code, vec![status(code)]),
            list("9", vec![job("a", 1, "8")]),
            list("11", vec![job("a", 2, "10")]),
        ])
        .await;
        renew(&mut list).await;
        assert_eq!(renew(&mut list).await, jobs(&[("a", 1)]));
        assert_eq!(renew(&mut list).await, jobs(&[("a", 2)]));
        let asked = questions.lock().unwrap().clone();
        assert_eq!(asked, ["list", "watch 7", "list", "list"]);
    }
}

#[tokio::test]
async fn failure_is_told_and_the_next_call_lists_again() {
    let (mut list, _) = live_list(vec![
        answer(500, vec![status(500)]),
        list("7", vec![job("a", 1, "5")]),
    ])
    .await;
    let failed = list.renew().await.unwrap();
    assert!(
        matches!(failed, VisibilityAnswer::Unavailable(_)),
        "{failed:?}"
    );
    assert_eq!(renew(&mut list).await, jobs(&[("a", 1)]));
}
