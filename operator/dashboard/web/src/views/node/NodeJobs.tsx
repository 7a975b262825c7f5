import { describeEta } from "../../app/job/jobs";
import { queue } from "../../app/live/store";
import { now } from "../../app/server/clock";
import { gangKey } from "../../draw/base/gang";
import { Card } from "../../parts/Card";
import { Table, type Column } from "../../parts/Table";
import { Name } from "../../parts/Text";
import { Until } from "../../parts/Time";
import { JobLink, QueueLink } from "../../parts/links";
import type { JobState, NodeHold, NodeState } from "../../wire/cluster";

const jobOf = (hold: NodeHold): JobState | undefined => queue.jobs.value.get(gangKey(hold));

const JOB: Column<NodeHold> = { title: "Job", cell: (hold) => <JobLink job={hold} /> };
const DEVICES: Column<NodeHold> = { title: "Devices", cell: (hold) => devicesText(hold) };
const PODS: Column<NodeHold> = { title: "Pods", isNumber: true, cell: (hold) => hold.pods };
const QUEUE: Column<NodeHold> = {
  title: "Queue",
  cell: (hold) => {
    const job = jobOf(hold);
    return job === undefined ? "-" : <QueueLink name={job.queue} />;
  },
};
const USER: Column<NodeHold> = { title: "User", isWide: true, cell: (hold) => <Name text={jobOf(hold)?.user ?? "-"} /> };

const HOLDING: readonly Column<NodeHold>[] = [
  JOB,
  { title: "State", cell: (hold) => <Name text={hold.state ?? "Running"} /> },
  DEVICES,
  PODS,
  QUEUE,
  { title: "Expected end", cell: (hold) => endText(jobOf(hold)) },
  USER,
];

const RESERVED: readonly Column<NodeHold>[] = [
  JOB,
  DEVICES,
  PODS,
  QUEUE,
  { title: "Expected start", isWide: true, cell: (hold) => (hold.expectedStart === undefined ? "unknown" : <Until time={hold.expectedStart} />) },
];

const KEPT: readonly Column<NodeHold>[] = [
  JOB,
  DEVICES,
  PODS,
  QUEUE,
  { title: "Kept until", isWide: true, cell: (hold) => (hold.until === undefined ? "unknown" : <Until time={hold.until} />) },
];

/** The jobs that hold a node, and the number of pods of no job. */
export function HoldingJobs({ node }: { readonly node: NodeState }) {
  const jobs = node.jobs ?? [];
  const others = node.otherPods === 1 ? "1 pod of no job" : `${node.otherPods} pods of no job`;
  return (
    <Card title="Who holds it" aside={node.otherPods > 0 && <span class="dim">and {others}</span>}>
      {jobs.length === 0 ? <p class="card-text dim">No job is on this node.</p> : <Table caption="Jobs on this node" columns={HOLDING} rows={jobs} keyOf={gangKey} />}
    </Card>
  );
}

/** The jobs for which devices of a node are reserved. */
export function Reservations({ node }: { readonly node: NodeState }) {
  const holds = node.reservedFor ?? [];
  if (holds.length === 0) return null;
  return (
    <Card title="Reserved for">
      <p class="card-text">Another job starts here only if it delays none of these.</p>
      <Table caption="Reservations" columns={RESERVED} rows={holds} keyOf={gangKey} />
    </Card>
  );
}

/** The jobs that restart, and for which the scheduler keeps their places. */
export function KeptPlaces({ node }: { readonly node: NodeState }) {
  const holds = node.keptFor ?? [];
  if (holds.length === 0) return null;
  return (
    <Card title="Kept for jobs that restart">
      <Table caption="Kept places" columns={KEPT} rows={holds} keyOf={gangKey} />
    </Card>
  );
}

/** The jobs that avoid a node, since their pods failed on it. */
export function AvoidingJobs({ node }: { readonly node: NodeState }) {
  const jobs = node.excludedBy ?? [];
  if (jobs.length === 0) return null;
  return (
    <Card title="Jobs that avoid it">
      <p class="card-text">Pods of these jobs have failed on this node. The list has at most 16 jobs.</p>
      <ul class="card-text plain-list">
        {jobs.map((job) => (
          <li key={gangKey(job)}>
            <JobLink job={job} />
          </li>
        ))}
      </ul>
    </Card>
  );
}

function devicesText(hold: NodeHold) {
  const devices = hold.devices ?? [];
  return <Name text={devices.length === 0 ? "-" : devices.map((entry) => `${entry.amount} ${entry.resource}`).join(", ")} />;
}

function endText(job: JobState | undefined): string {
  return job === undefined ? "-" : (describeEta(job, now.value) ?? "unknown");
}
