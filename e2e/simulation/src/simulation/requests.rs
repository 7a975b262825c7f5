//! The requests of the replicas on their way to the API server, and the answers.

use std::time::Duration;

use serde_json::json;
use trellis_api_server::{Response, User};

use super::lease_use::is_lease_write;
use super::single_writes::is_write_of;
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
        let late_write = self.replicas[replica].lease.find_late_write(sent_at, &sent);
        self.request_problems.extend(late_write);
        let process = (replica, self.replicas[replica].starts);
        let hasty_deletion = self.deletions.send(process, sent_at, &sent.request);
        self.request_problems.extend(hasty_deletion);
        let loses_lease = active
            .iter()
            .find(|fault| **fault == &Fault::LoseLease(replica));
        if let Some(fault) = loses_lease.filter(|_| is_lease_write(&sent)) {
            delivery = Delivery::LostBefore;
            self.coverage.count(fault, &self.server);
        }
        if is_write_of(WriteKind::Any, &sent.request) {
            self.writes += 1;
            let (script, request) = (self.script, &sent.request);
            for (time, act) in self.single_writes.count_for_acts(script, sent_at, request) {
                self.schedule(time, WorldEvent::Act(act));
            }
            let writes = &mut self.single_writes;
            let met = writes.count_for_faults(script, sent_at, replica, request);
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
            sent_at,
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
            sent_at,
            sent,
            delivery,
            answer_time,
            name,
        } = request;
        let cut = || Err("the connection was cut".into());
        let refusal = match delivery {
            Delivery::LostBefore => Some(cut()),
            Delivery::Unavailable => {
                let why = "the simulated proxy refuses";
                Some(Ok(failure(503, "ServiceUnavailable", why)))
            }
            Delivery::Denied => {
                let why = "admission webhook \"simulated\" denied the request";
                Some(Ok(failure(403, "Forbidden", why)))
            }
            Delivery::Whole | Delivery::LostAfter => None,
        };
        if let Some(refusal) = refusal {
            return self.schedule_after(answer_time, WorldEvent::Answer(sent.answer, refusal));
        }
        let user = operator_user(replica);
        let former = is_lease_write(&sent).then(|| self.lease_holder());
        let response = self.server.handle(&user, &sent.request, self.wall_clock());
        if let Some(former) = former
            && matches!(&response, Response::Answer(answer) if answer.status().is_success())
        {
            self.judge_lease_write(replica, sent_at, former);
        }
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
