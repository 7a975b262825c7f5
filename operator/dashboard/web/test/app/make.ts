/** Objects for tests. */

import type { JobState, QueueState } from "../../src/wire/cluster";
import type { PodLine, StatusReport, TaskGroup, TrainingJobStatus } from "../../src/wire/job";

/** Returns a pending job. */
export function makeJob(name: string, more: Partial<JobState> = {}): JobState {
  return {
    metadata: { name, namespace: "team-a" },
    queue: "research",
    priority: 0,
    phase: "Queued",
    position: 1,
    gpus: 8,
    pods: 1,
    submitted: "2026-01-01T00:00:00Z",
    since: "2026-01-01T00:00:00Z",
    ...more,
  };
}

/** Returns a running job. */
export function makeRunning(name: string, more: Partial<JobState> = {}): JobState {
  const { position: _, ...job } = makeJob(name);
  return { ...job, phase: "Running", ...more };
}

/** Returns a queue without quota. */
export function makeQueue(name: string, more: Partial<QueueState> = {}): QueueState {
  return { metadata: { name }, weight: "1", active: true, pending: 0, admitted: 0, ...more };
}

/** Returns a pod that runs. */
export function makePod(group: string, index: number, more: Partial<PodLine> = {}): PodLine {
  return {
    name: `llm-${group}-${index}`,
    group,
    index,
    attempt: 1,
    state: "Running",
    ready: 1,
    containers: 1,
    restarts: 0,
    ...more,
  };
}

/** Returns the report of a job with these task groups. */
export function makeReport(
  taskGroups: readonly TaskGroup[],
  status: TrainingJobStatus,
  more: Partial<StatusReport> = {},
): StatusReport {
  return {
    time: "2026-01-01T00:00:00Z",
    job: { metadata: { name: "llm", namespace: "team-a" }, spec: { taskGroups }, status },
    objects: [],
    pods: [],
    missing: [],
    events: [],
    unread: [],
    ...more,
  };
}
