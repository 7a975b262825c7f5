/** Made-up clusters for tests, for pictures and for the measurement of frames. The same seed gives the same cluster. */

import type { EndedAttempt } from "../../src/wire/attempt";
import type { JobState, NodeDomain, NodeHold, NodeState, QueueState } from "../../src/wire/cluster";

/** Kubernetes name of the device. */
export const GPU = "nvidia.com/gpu";

/** Time for which clusters are made up. */
export const NOW = new Date("2026-03-02T12:00:00Z");

/** A made-up cluster. */
export interface Cluster {
  readonly nodes: NodeState[];
  readonly jobs: JobState[];
  readonly queues: QueueState[];
}

/** Size and shape of a cluster. */
export interface ClusterOptions {
  readonly nodes: number;
  readonly devices?: number;
  readonly rack?: number;
  readonly racksPerBlock?: number;
  readonly blocksPerZone?: number;
  readonly waiting?: number;
  readonly seed?: number;
  /** False: nodes have no domains. */
  readonly hasDomains?: boolean;
}

/** Returns numbers from 0 to 1, the same for each seed (mulberry32). */
export function randomNumbers(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Use of a node, in devices. */
export interface NodeUse {
  readonly total?: number;
  readonly others?: number;
  readonly jobs?: readonly NodeHold[];
  readonly keptFor?: readonly NodeHold[];
  readonly reservedFor?: readonly NodeHold[];
  readonly reason?: string;
  readonly domains?: readonly string[];
}

const LEVELS = ["zone", "block", "rack"];

/** Returns a node with one kind of device. Domains are zone, block and rack, the last ones of them. */
export function makeNode(name: string, use: NodeUse = {}): NodeState {
  const total = use.total ?? 8;
  const sum = (holds: readonly NodeHold[] | undefined): number => (holds ?? []).reduce((all, hold) => all + Number(hold.devices?.[0]?.amount ?? 0), 0);
  const [jobs, kept, others] = [sum(use.jobs), sum(use.keptFor), use.others ?? 0];
  const free = total - jobs - kept - others;
  const names = use.domains ?? [];
  const domains: NodeDomain[] = names.map((domain, index) => ({ topology: "dc", level: LEVELS[index + LEVELS.length - names.length] ?? "level", domain }));
  const cpu = 12 * (jobs + others);
  return {
    metadata: { name },
    schedulable: use.reason === undefined,
    ...(use.reason === undefined ? {} : { reasons: [{ reason: use.reason, message: REASONS[use.reason] ?? "The node takes no pods." }] }),
    ...(total > 0 ? { taints: [`${GPU}=present:NoSchedule`] } : {}),
    ...(domains.length > 0 ? { domains } : {}),
    resources: [
      { resource: "cpu", allocatable: "112", jobs: String(cpu), others: "1", kept: "0", free: String(111 - cpu) },
      { resource: "memory", allocatable: "2Ti", jobs: `${jobs * 128}Gi`, others: "4Gi", kept: "0", free: `${2044 - jobs * 128}Gi` },
      ...(total === 0 ? [] : [{ resource: GPU, allocatable: String(total), jobs: String(jobs), others: String(others), kept: String(kept), ...(free < 0 ? {} : { free: String(free) }) }]),
    ],
    ...(use.jobs === undefined ? {} : { jobs: use.jobs }),
    otherPods: others > 0 ? 1 : 0,
    ...(use.reservedFor === undefined ? {} : { reservedFor: use.reservedFor }),
    ...(use.keptFor === undefined ? {} : { keptFor: use.keptFor }),
  };
}

const REASONS: Readonly<Record<string, string>> = {
  Unhealthy: "GpuMemWatch: XID 79, GPU has fallen off the bus",
  SchedulingDisabled: "The node is cordoned.",
  NotReady: "The kubelet has not reported for 5m.",
};

/** Returns a hold of a job. */
export function makeHold(namespace: string, name: string, devices: number, state?: string, more: Partial<NodeHold> = {}): NodeHold {
  return { namespace, name, pods: 1, devices: [{ resource: GPU, amount: String(devices) }], ...(state === undefined ? {} : { state }), ...more };
}

/** Returns a time some hours from {@link NOW}. */
export function hoursFromNow(hours: number): string {
  return new Date(NOW.getTime() + hours * 3_600_000).toISOString().replace(/\.\d+Z$/, "Z");
}

/** Returns an attempt of a job that was placed and ended some hours from {@link NOW}. */
export function makeAttempt(job: string, attempt: number, [placed, ended]: readonly [number, number], more: Partial<EndedAttempt> = {}): EndedAttempt {
  return {
    metadata: { namespace: "ml", name: `${job}.${attempt}.${NOW.getTime() + ended * 3_600_000}` },
    job,
    uid: `uid-${job}`,
    attempt,
    queue: "ml",
    user: "ada@example.org",
    gpus: 8,
    nodeCount: 1,
    placed: hoursFromNow(placed),
    running: hoursFromNow(placed + 0.02),
    ended: hoursFromNow(ended),
    phase: "Complete",
    reason: "Complete",
    message: "all pods have succeeded",
    ...more,
  };
}

const TEAMS = ["ml", "vision", "speech", "rl", "search"];
const MODELS = ["llm", "bert", "diffusion", "whisper", "ranker", "policy", "sweep", "eval"];

/** Returns a cluster that is mostly full, with holes, broken nodes, reservations and waiting jobs. */
export function makeCluster(options: ClusterOptions): Cluster {
  const random = randomNumbers(options.seed ?? 1);
  const devices = options.devices ?? 8;
  const uses = Array.from({ length: options.nodes }, () => ({ jobs: [] as NodeHold[], keptFor: [] as NodeHold[], reservedFor: [] as NodeHold[], others: 0 }));
  const jobs: JobState[] = [];
  let next = 0;
  while (next < options.nodes) {
    const shape = random();
    if (shape < 0.1) next += 1 + Math.floor(random() * 3);
    else if (shape < 0.4) next += placeSmall(uses, next, jobs, random, devices);
    else next += placeGang(uses, next, jobs, random, devices);
  }
  addWaiting(uses, jobs, random, options.waiting ?? Math.ceil(options.nodes / 12), devices);
  const nodes = uses.map((use, index) => {
    const bad = random() < 0.02;
    const domains = options.hasDomains === false ? [] : domainsFor(index, options);
    return makeNode(`gpu-${String(index)}`, {
      total: devices,
      ...use,
      domains,
      ...(bad ? { reason: ["Unhealthy", "SchedulingDisabled", "NotReady"][Math.floor(random() * 3)] ?? "NotReady" } : {}),
    });
  });
  return { nodes, jobs, queues: makeQueues(jobs) };
}

interface Use {
  jobs: NodeHold[];
  keptFor: NodeHold[];
  reservedFor: NodeHold[];
  others: number;
}

function domainsFor(index: number, options: ClusterOptions): readonly string[] {
  const rack = Math.floor(index / (options.rack ?? 16));
  const block = Math.floor(rack / (options.racksPerBlock ?? 10));
  const zone = Math.floor(block / (options.blocksPerZone ?? 8));
  return [`z${zone + 1}`, `b${String(block + 1).padStart(2, "0")}`, `r${String(rack + 1).padStart(3, "0")}`];
}

function placeGang(uses: Use[], first: number, jobs: JobState[], random: () => number, devices: number): number {
  const sizes = [1, 2, 2, 4, 4, 8, 8, 16, 32];
  const wanted = sizes[Math.floor(random() * sizes.length)] ?? 1;
  const count = Math.min(wanted, uses.length - first);
  const job = makeJob(jobs.length, count * devices, count, random);
  const phase = random();
  const state = phase < 0.9 ? "Running" : phase < 0.95 ? "Starting" : "Stopping";
  for (let index = first; index < first + count; index += 1) {
    const hold = makeHold(job.metadata.namespace ?? "", job.metadata.name, devices, phase > 0.985 ? undefined : state);
    if (phase > 0.985) uses[index]?.keptFor.push({ ...hold, until: hoursFromNow(0.05) });
    else uses[index]?.jobs.push(hold);
  }
  jobs.push({ ...job, phase: state === "Starting" ? "Starting" : "Running" });
  return count;
}

function placeSmall(uses: Use[], first: number, jobs: JobState[], random: () => number, devices: number): number {
  const use = uses[first];
  if (use === undefined) return 1;
  let left = devices;
  while (left > 0 && random() < 0.72) {
    const size = Math.min(1 + Math.floor(random() * 4), left);
    if (random() < 0.2) use.others += size;
    else {
      const job = makeJob(jobs.length, size, 1, random);
      use.jobs.push(makeHold(job.metadata.namespace ?? "", job.metadata.name, size, "Running"));
      jobs.push(job);
    }
    left -= size;
  }
  return 1;
}

function makeJob(index: number, gpus: number, pods: number, random: () => number): JobState {
  const team = TEAMS[Math.floor(random() * TEAMS.length)] ?? "ml";
  const model = MODELS[Math.floor(random() * MODELS.length)] ?? "llm";
  const since = -30 * random() ** 2;
  const ends = random() < 0.85;
  return {
    metadata: { namespace: team, name: `${model}-${String(index)}` },
    queue: team === "rl" ? "research" : team,
    user: `${["ada", "bob", "eve", "joe"][index % 4] ?? "ada"}@example.org`,
    priority: 0,
    phase: "Running",
    gpus,
    pods,
    submitted: hoursFromNow(since - random() * 5),
    since: hoursFromNow(since),
    ...(ends ? { expectedEnd: hoursFromNow(0.1 + random() ** 2 * 40) } : {}),
    nodeCount: pods,
  };
}

function addWaiting(uses: Use[], jobs: JobState[], random: () => number, count: number, devices: number): void {
  const positions = new Map<string, number>();
  for (let index = 0; index < count; index += 1) {
    const pods = [1, 2, 4, 8][Math.floor(random() * 4)] ?? 1;
    const base = makeJob(jobs.length, pods * devices, pods, random);
    const { expectedEnd: _, nodeCount: __, ...job } = base;
    const position = (positions.get(job.queue) ?? 0) + 1;
    positions.set(job.queue, position);
    const start = 0.2 + random() * position * 2;
    const isKnown = random() < 0.8;
    const since = hoursFromNow(-random() * 10);
    jobs.push({
      ...job,
      phase: "Queued",
      reason: "InsufficientCapacity",
      message: `needs ${pods * devices} ${GPU}; ${Math.floor(pods * devices * 0.6)} are free on 12 matching nodes`,
      position,
      submitted: since,
      since,
      ...(isKnown ? { expectedStart: hoursFromNow(start), expectedEnd: hoursFromNow(start + 1 + random() * 12) } : {}),
    });
    if (index < 3 && isKnown) reserve(uses, jobs.at(-1), pods, random, devices);
  }
}

function reserve(uses: Use[], job: JobState | undefined, pods: number, random: () => number, devices: number): void {
  if (job === undefined) return;
  const first = Math.floor(random() * Math.max(uses.length - pods, 1));
  for (const use of uses.slice(first, first + pods)) {
    use.reservedFor.push(makeHold(job.metadata.namespace ?? "", job.metadata.name, devices, undefined, job.expectedStart === undefined ? {} : { expectedStart: job.expectedStart }));
  }
}

function makeQueues(jobs: readonly JobState[]): QueueState[] {
  const names = [...new Set(jobs.map((job) => job.queue))].sort();
  return names.map((name) => {
    const own = jobs.filter((job) => job.queue === name);
    const used = own.filter((job) => job.position === undefined).reduce((sum, job) => sum + job.gpus, 0);
    return {
      metadata: { name },
      weight: "1",
      active: true,
      pending: own.filter((job) => job.position !== undefined).length,
      admitted: own.filter((job) => job.position === undefined).length,
      resources: [{ flavor: "h100", resource: GPU, nominalQuota: String(used + 64), used: String(used), borrowed: "0", lendable: "32", available: "64" }],
    };
  });
}
