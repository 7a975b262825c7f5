//! The requests of the replicas on their way to the API server, and the answers.

use std::time::Duration;

use hyper::body::Bytes;
use serde_json::json;
use trellis_api_server::{Response, User};

use super::{ArrivingRequest, Simulation, WorldEvent};
use crate::admission;
use crate::network::Delivery;
use crate::script::{Fault, WriteFault, WriteKind};
use crate::time::VirtualTime;
use crate::transport::{AnswerBody, SentRequest, full_body};

impl Simulation<'_> {
    /// Takes a request that a replica has sent.
    ///
    /// Returns false if the replica is killed at this moment.
    pub(super) fn send(&mut self, replica: usize, sent_at: VirtualTime, sent: SentRequest) -> bool {
        let active = self
            .script
            .faults
            .iter()
            .filter(|fault| fault.is_active(sent_at));
        let active: Vec<&Fault> = active.map(|fault| &fault.fault).collect();
        let name = format!("{} {}", sent.request.method(), sent.request.uri());
        let path = sent.request.uri().path();
        let route = self.network.route(&format!("{replica} {path}"), &active);
        if let Some(fault) = route.fault {
            self.coverage.count(fault, &self.server);
        }
        let mut delivery = route.delivery;
        let mut request_time = route.request_time;
        let mut survives = true;
        if is_write(&sent.request) {
            self.writes += 1;
            let writes = &mut self.single_writes;
            for (time, act) in writes.count_for_acts(self.script, sent_at, &sent.request) {
                self.schedule(time, WorldEvent::Act(act));
            }
            let writes = &mut self.single_writes;
            let met = writes.count_for_faults(self.script, sent_at, replica, &sent.request);
            for (fault, of_write) in met {
                self.coverage.count(&fault.fault, &self.server);
                match of_write {
                    WriteFault::Delay(millis) => {
                        let rest = fault.end().since(sent_at);
                        request_time = Duration::from_millis(*millis).min(rest);
                    }
                    WriteFault::Deny => delivery = Delivery::Denied,
                    WriteFault::LoseRequest => delivery = Delivery::LostBefore,
                    WriteFault::LoseAnswer => delivery = Delivery::LostAfter,
                    WriteFault::CrashBefore => (delivery, survives) = (Delivery::LostBefore, false),
                    WriteFault::CrashAfter => (delivery, survives) = (Delivery::Whole, false),
                    WriteFault::StallWatches(_) => {}
                }
            }
        }
        self.trace.record(
            sent_at,
            &format!("replica {replica} sends {name} ({delivery:?})"),
            sent.request.body(),
        );
        let arrival = sent_at + request_time;
        let request = ArrivingRequest {
            replica,
            sent,
            delivery,
            answer_time: route.answer_time,
            name,
        };
        self.schedule(arrival, WorldEvent::Request(Box::new(request)));
        if !survives {
            let event = format!("replica {replica} is killed");
            self.trace.record(sent_at, &event, &[]);
            self.crash(replica);
        }
        survives
    }

    /// Handles a request that the API server receives, or a proxy before it.
    pub(super) fn handle_request(&mut self, request: ArrivingRequest) {
        let ArrivingRequest {
            replica,
            sent,
            delivery,
            answer_time,
            name,
        } = request;
        let cut = || Err("the connection was cut".into());
        match delivery {
            Delivery::LostBefore => {
                return self.schedule_after(answer_time, WorldEvent::Answer(sent.answer, cut()));
            }
            Delivery::Unavailable | Delivery::Denied => {
                let answer = Ok(match delivery {
                    Delivery::Denied => failure(
                        403,
                        "Forbidden",
                        "admission webhook \"simulated\" denied the request",
                    ),
                    _ => failure(503, "ServiceUnavailable", "the simulated proxy refuses"),
                });
                return self.schedule_after(answer_time, WorldEvent::Answer(sent.answer, answer));
            }
            Delivery::Whole | Delivery::LostAfter => {}
        }
        let user = operator_user(replica);
        let response = self.server.handle(&user, &sent.request, self.wall_clock());
        let answer = match response {
            Response::Answer(answer) => {
                self.trace.record(
                    self.now,
                    &format!(
                        "answer {} to replica {replica}: {name}",
                        answer.status().as_u16()
                    ),
                    answer.body(),
                );
                self.deletions.observe(&sent.request, answer.status());
                Ok(answer.map(full_body))
            }
            Response::Watch(watch) => {
                self.trace.record(
                    self.now,
                    &format!("watch of replica {replica}: {name}"),
                    &[],
                );
                Ok(self.open_watch(replica, &sent.request, watch))
            }
        };
        let answer = if delivery == Delivery::LostAfter {
            cut()
        } else {
            answer
        };
        self.schedule_after(answer_time, WorldEvent::Answer(sent.answer, answer));
    }
}

fn is_write(request: &http::Request<Bytes>) -> bool {
    let target = request.uri().path_and_query();
    WriteKind::Any.includes(
        request.method(),
        target.map_or("", |target| target.as_str()),
    )
}

/// Returns the user of a replica, with the pod of its token.
fn operator_user(replica: usize) -> User {
    let extra = |key: &str, value: String| {
        let key = format!("authentication.kubernetes.io/{key}");
        (key, vec![value])
    };
    User {
        name: admission::OPERATOR.to_owned(),
        groups: vec![
            "system:serviceaccounts".to_owned(),
            "system:authenticated".to_owned(),
        ],
        extra: [
            extra("pod-name", format!("trellis-operator-{replica}")),
            extra("pod-uid", format!("pod-of-replica-{replica}")),
        ]
        .into(),
        ..User::default()
    }
}

fn failure(code: u16, reason: &str, message: &str) -> http::Response<AnswerBody> {
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {},
        "status": "Failure", "message": message, "code": code, "reason": reason});
    http::Response::builder()
        .status(code)
        .header("content-type", "application/json")
        .body(full_body(status.to_string().into()))
        .expect("a valid answer")
}
