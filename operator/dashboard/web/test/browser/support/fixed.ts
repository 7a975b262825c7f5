/** Answers of the server about one made-up moment, for pictures. */

import type { Page, Route } from "@playwright/test";

import type { AttemptsAnswer } from "../../../src/wire/attempt";
import type { JobState, NodesAnswer, QueueAnswer, QueueState, Session } from "../../../src/wire/cluster";
import type { Answer, Explanation, StatusReport, TrainingJob, WhyAnswer } from "../../../src/wire/job";
import { GPU, NOW, hoursFromNow, makeAttempt, makeCluster, makeHold, makeNode } from "../../draw/made-up";

/** Half a minute after a whole one: ages in minutes are then the same for some seconds. */
const MOMENT = new Date(NOW.getTime() + 30_000);

const time = MOMENT.toISOString();
const user = "ada@example.org";

/** The job whose page explains why it waits. */
export const WAITING_JOB = { namespace: "team-a", name: "llm" } as const;

const MESSAGE =
  "needs 64 nvidia.com/gpu, 58 are free on 12 matching nodes: 6 are missing; gangs hold 38, other pods 0; it is next for free capacity, and starts at 2026-03-02T13:03:00Z at the latest if running gangs end on time";

const PREEMPTION = "made room for vision/urgent (priority 1000), because research held more than its quota";

const session: Session = {
  user,
  mode: "local",
  version: "0.1.0",
  context: "research-cluster",
  namespace: "team-a",
  may: { allJobs: true, queues: true, nodes: true },
  time,
};

const waiting: JobState = {
  metadata: { ...WAITING_JOB },
  queue: "research",
  user,
  priority: 100,
  phase: "Queued",
  reason: "InsufficientCapacity",
  message: MESSAGE,
  position: 1,
  gpus: 64,
  pods: 8,
  submitted: hoursFromNow(-2),
  since: hoursFromNow(-2),
  expectedStart: hoursFromNow(1.05),
  expectedEnd: hoursFromNow(25.05),
};

const running: JobState = {
  metadata: { namespace: "team-a", name: "first" },
  queue: "research",
  user: "bob@example.org",
  priority: 0,
  phase: "Running",
  gpus: 6,
  pods: 6,
  submitted: hoursFromNow(-8),
  since: hoursFromNow(-7),
  expectedEnd: hoursFromNow(1.05),
  nodeCount: 1,
  nodes: ["gpu-0"],
};

const cluster = makeCluster({ nodes: 48, rack: 4, racksPerBlock: 3, blocksPerZone: 2, waiting: 9 });

const jobs: readonly JobState[] = [
  ...cluster.jobs,
  running,
  waiting,
  { ...running, metadata: { namespace: "team-a", name: "bert" }, user, gpus: 16, pods: 2, nodeCount: 2, since: hoursFromNow(-3), expectedEnd: hoursFromNow(9) },
];

function quota(name: string, numbers: readonly [nominal: number, used: number, borrowed: number, lendable: number], more: Partial<QueueState> = {}): QueueState {
  const [nominal, used, borrowed, lendable] = numbers.map(String) as [string, string, string, string];
  const row = { flavor: "h100", resource: GPU, nominalQuota: nominal, used, borrowed, lendable, available: String(Math.max(0, Number(nominal) - Number(used))) };
  return { metadata: { name }, weight: "1", active: true, pending: 0, admitted: 0, share: "0.120", resources: [row], ...more };
}

const queues: readonly QueueState[] = [
  quota("lab", [0, 0, 0, 0], { resources: [] }),
  quota("research", [96, 104, 8, 0], { parent: "lab", pending: 3, admitted: 5, share: "0.421", pendingResources: [{ resource: GPU, amount: "88" }] }),
  quota("vision", [96, 64, 0, 32], { parent: "lab", pending: 2, admitted: 9, share: "0.187", weight: "2", pendingResources: [{ resource: GPU, amount: "24" }] }),
  quota("speech", [48, 48, 0, 0], { parent: "lab", admitted: 4, share: "0.233" }),
  quota("default", [0, 12, 0, 0], { admitted: 3, share: "0.061", reason: "QuotaBypassed", message: "jobs of team-a bypass the quota of research" }),
];

const queue: QueueAnswer = { version: "1", time, ordered: true, jobs, queues, notes: [] };

const nodes: NodesAnswer = {
  version: "1",
  time,
  notes: [],
  nodes: cluster.nodes.map((node) =>
    node.metadata.name === "gpu-0"
      ? makeNode("gpu-0", { jobs: [makeHold("team-a", "first", 6, "Running")], domains: ["z1", "b01", "r001"] })
      : node,
  ),
};

const trainingJob: TrainingJob = {
  metadata: { ...WAITING_JOB, creationTimestamp: hoursFromNow(-2), labels: { team: "a" } },
  spec: { framework: "PyTorch", queueName: "research", restart: { limit: 3 }, taskGroups: [{ name: "worker", replicas: 8, gpus: 8 }] },
  status: {
    phase: "Queued",
    reason: "InsufficientCapacity",
    message: MESSAGE,
    queue: "research",
    ready: "0/8",
    pods: { total: 8, running: 0, succeeded: 0, failed: 0 },
    gpus: 64,
    attempt: 2,
    restarts: 0,
    disruptions: 1,
    queuedTime: hoursFromNow(-2),
    lastPreemption: { message: PREEMPTION, attempt: 1, time: hoursFromNow(-2) },
    checkpoint: { lastTime: hoursFromNow(-2.1) },
    policy: { decision: "Allowed", requester: user, policies: ["starter/images", "starter/queues", "starter/submit"] },
  },
};

const events: StatusReport["events"] = [
  { type: "Normal", reason: "Queued", note: "waits in queue research", count: 1, last: hoursFromNow(-2) },
  { type: "Warning", reason: "InsufficientCapacity", note: "needs 64 nvidia.com/gpu, 58 are free on 12 matching nodes: 6 are missing", count: 4, last: hoursFromNow(-1.5) },
];

const report: StatusReport = {
  time,
  job: trainingJob,
  objects: ["Service", "NetworkPolicy", "PodGroup"].map((kind) => ({ apiVersion: "v1", kind, name: "llm", state: "there" })),
  pods: [],
  missing: [{ group: "worker", indexes: "0-7", ranks: "0-7", count: 8, why: "the gang is not placed" }],
  events,
  unread: [],
};

const explanation: Explanation = {
  time,
  queue: "research",
  priority: 100,
  position: 1,
  reason: "InsufficientCapacity",
  message: MESSAGE,
  shortage: { resource: GPU, needs: "64", free: "58", missing: "6", heldByJobs: "38", heldByOthers: "0", nodes: 12 },
  taskGroups: [
    {
      name: "worker",
      pods: 8,
      requests: [
        { resource: "cpu", amount: "96" },
        { resource: "memory", amount: "1000Gi" },
        { resource: GPU, amount: "8" },
      ],
      nodes: 14,
      matching: 12,
      room: 7,
      excluded: [{ constraint: "Resource", detail: GPU, count: 2, nodes: ["cpu-0", "cpu-1"] }],
      candidates: ["gpu-1", "gpu-2", "gpu-3"].map((node) => ({ node, room: 1, free: [{ resource: GPU, amount: "8" }, { resource: "cpu", amount: "128" }] })),
    },
  ],
  reservedNodes: ["gpu-0", "gpu-1", "gpu-2", "gpu-3"],
  expectedStart: hoursFromNow(1.05),
};

const answer: Answer = {
  word: "Queued",
  since: hoursFromNow(-2),
  reason: "InsufficientCapacity",
  message: MESSAGE,
  place: [{ text: "number 1 of queue " }, { text: "research", queue: "research" }, { text: ", priority 100" }],
  start: [{ text: "expected to start in 62m (2026-03-02T13:03:00Z)" }],
  sections: [
    {
      kind: "change",
      heading: "The smallest change that would help",
      lines: [
        [
          { text: "free 6 nvidia.com/gpu on node " },
          { text: "gpu-0", node: "gpu-0" },
          { text: ", held by " },
          { text: "team-a/first", job: { namespace: "team-a", name: "first" } },
          { text: " (6 nvidia.com/gpu)" },
        ],
      ],
    },
    {
      kind: "request",
      heading: "The job would start now with any one of these changes",
      lines: [[{ text: "spec.taskGroups[worker].flavors: [a100]" }]],
      note: "A job that was placed before must be suspended for the change",
    },
  ],
  nextSteps: "Wait until other jobs end; the message says how much is missing and how much must become free on which nodes.",
};

const why: WhyAnswer = { time, job: trainingJob, explanation, queue: queues[1] as QueueState, events, answer };

const JOB_PATH = `/api/jobs/${WAITING_JOB.namespace}/${WAITING_JOB.name}`;

const attempts: AttemptsAnswer = {
  time,
  attempts: [
    makeAttempt("ranker-2", 1, [-20, -15], { metadata: { namespace: "search", name: "ranker-2.1.0" }, queue: "search" }),
    makeAttempt("llm", 1, [-9, -2], { metadata: { ...WAITING_JOB, name: "llm.1.0" }, queue: "research", user, gpus: 64, phase: "Queued", reason: "Queued", preempted: true, message: PREEMPTION, checkpoint: hoursFromNow(-2.1) }),
    makeAttempt("eval-9", 1, [-1.5, -0.3], {
      metadata: { namespace: "vision", name: "eval-9.1.0" },
      queue: "vision",
      phase: "Failed",
      reason: "TaskFailed",
      failure: { pod: "eval-9-worker-1", node: "gpu-7", exitCode: 1, reason: "Error", lastLine: "RuntimeError: CUDA error: an illegal memory access", attempt: 1, time: hoursFromNow(-0.3) },
    }),
  ],
};

const ANSWERS: Readonly<Record<string, unknown>> = {
  "/api/session": session,
  "/api/queue": queue,
  "/api/nodes": nodes,
  "/api/attempts": attempts,
  [JOB_PATH]: report,
  [`${JOB_PATH}/why`]: why,
};

/** Answers all requests for data with this moment. The clock of page and server stands still. */
export async function fixMoment(page: Page): Promise<void> {
  await page.clock.setFixedTime(MOMENT);
  await page.route("**/api/**", (route) => answerRoute(route));
}

async function answerRoute(route: Route): Promise<void> {
  const { pathname } = new URL(route.request().url());
  if (pathname === "/api/open") return route.continue();
  // The stream stays open and says nothing.
  if (pathname === "/api/stream") return undefined;
  const content = ANSWERS[pathname];
  if (content === undefined) throw new Error(`no picture needs ${pathname}`);
  return route.fulfill({ json: content, headers: { Date: MOMENT.toUTCString() } });
}
