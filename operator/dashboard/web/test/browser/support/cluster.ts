/** The cluster of the tests: objects that a test creates, and the answers of kubectl and `trellis`. */

import { randomBytes } from "node:crypto";
import { mkdtemp, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

import { type UserName, environment } from "./environment";
import { type ProgramResult, outputOf, runProgram } from "./program";

/** A Kubernetes object, as JSON. */
export interface KubernetesObject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly namespace?: string; readonly [field: string]: unknown };
  readonly [field: string]: unknown;
}

/** Namespaces that the harness has created. */
export const TEAM_A = "team-a";
export const TEAM_B = "team-b";

/** Returns a name that no other object has. */
export function uniqueName(prefix = "job"): string {
  return `${prefix}-${randomBytes(4).toString("hex")}`;
}

/** Runs kubectl with all rights. Fails with kubectl's message. */
export function kubectl(...args: readonly string[]): Promise<string> {
  return outputOf(environment.kubectl, args, { env: { KUBECONFIG: environment.kubeconfig } });
}

/** Runs kubectl with all rights, and parses its output as JSON. The caller names the type. */
export async function kubectlJson<Answer>(...args: readonly string[]): Promise<Answer> {
  return JSON.parse(await kubectl(...args, "-o", "json")) as Answer;
}

/** Runs kubectl as a user. */
export async function kubectlAs(user: UserName, ...args: readonly string[]): Promise<ProgramResult> {
  return runProgram(environment.kubectl, args, { env: { KUBECONFIG: await kubeconfigOf(user) } });
}

/** Asks the API server what would become of jobs of {@link TEAM_A}, and returns the status of the Plan. */
export async function askPlan(user: UserName, ...jobs: readonly KubernetesObject[]): Promise<PlanStatus> {
  const path = `/apis/visibility.trellis.dev/v1alpha1/namespaces/${TEAM_A}/plans`;
  const question = { apiVersion: "visibility.trellis.dev/v1alpha1", kind: "Plan", spec: { jobs } };
  const env = { KUBECONFIG: await kubeconfigOf(user) };
  const told = await outputOf(environment.kubectl, ["create", "--raw", path, "-f", "-"], { input: toAscii(JSON.stringify(question)), env });
  return (JSON.parse(told) as { readonly status: PlanStatus }).status;
}

/** What a Plan says about each job. */
export interface PlanStatus {
  readonly jobs: readonly { readonly name: string; readonly verdict: string; readonly reason?: string; readonly message?: string }[];
}

/** Runs `trellis` as a user. */
export async function trellisAs(user: UserName, ...args: readonly string[]): Promise<ProgramResult> {
  return runProgram(environment.trellis, args, { env: { KUBECONFIG: await kubeconfigOf(user), NO_COLOR: "1" } });
}

/** Runs `trellis` as a user, with a text on its standard input. */
export async function trellisWithInput(user: UserName, input: string, ...args: readonly string[]): Promise<ProgramResult> {
  return runProgram(environment.trellis, args, { input, env: { KUBECONFIG: await kubeconfigOf(user), NO_COLOR: "1" } });
}

/** Runs `trellis ... -o json` with all rights, and parses its output. The caller names the type. */
export async function trellisJson<Answer>(...args: readonly string[]): Promise<Answer> {
  const { code, stdout, stderr } = await trellisAs("admin", ...args, "-o", "json");
  if (code !== 0) throw new Error(`trellis ${args.join(" ")} returned ${code}: ${stderr}`);
  return JSON.parse(stdout) as Answer;
}

const kubeconfigs = new Map<UserName, Promise<string>>();

/** Returns the path of a kubeconfig of the user. All users work in {@link TEAM_A}. */
export function kubeconfigOf(user: UserName): Promise<string> {
  const known = kubeconfigs.get(user) ?? writeKubeconfig(user);
  kubeconfigs.set(user, known);
  return known;
}

async function writeKubeconfig(user: UserName): Promise<string> {
  const source = user === "admin" ? environment.kubeconfig : join(environment.users, `${user}.yaml`);
  const path = await copyKubeconfig(source, user);
  await outputOf(environment.kubectl, ["config", "set-context", "--current", `--namespace=${TEAM_A}`], { env: { KUBECONFIG: path } });
  return path;
}

async function copyKubeconfig(source: string, user: string): Promise<string> {
  const flat = await outputOf(environment.kubectl, ["config", "view", "--raw", "--flatten"], { env: { KUBECONFIG: source } });
  const path = join(await mkdtemp(join(tmpdir(), "trellis-user-")), `${user}.yaml`);
  await writeFile(path, flat, { mode: 0o600 });
  return path;
}

/** Writes a kubeconfig for a ServiceAccount of {@link TEAM_A}, which works in that namespace. */
export async function serviceAccountKubeconfig(name: string): Promise<{ readonly kubeconfig: string }> {
  const token = (await kubectl("create", "token", name, "-n", TEAM_A)).trim();
  const path = await copyKubeconfig(environment.kubeconfig, name);
  const config = (...args: readonly string[]): Promise<string> => outputOf(environment.kubectl, ["config", ...args], { env: { KUBECONFIG: path } });
  await config("set-credentials", name, `--token=${token}`);
  await config("set-context", "--current", `--namespace=${TEAM_A}`, `--user=${name}`);
  return { kubeconfig: path };
}

/** The objects that one test has created. */
export class TestObjects {
  private readonly created: string[][] = [];

  /** Creates or changes objects. They are deleted after the test. */
  apply(...objects: readonly KubernetesObject[]): Promise<void> {
    // Server-side: kubectl would add an annotation with a copy of the object otherwise.
    return this.send(["apply", "--server-side", "--force-conflicts"], objects);
  }

  /** Creates objects with any text: a change would be sent as YAML, which has no control characters. */
  create(...objects: readonly KubernetesObject[]): Promise<void> {
    return this.send(["create"], objects);
  }

  /** Creates objects as a user of this name, who has all rights. */
  createAs(user: string, ...objects: readonly KubernetesObject[]): Promise<void> {
    return this.send(["create", `--as=${user}`, "--as-group=system:masters"], objects);
  }

  private async send(command: readonly string[], objects: readonly KubernetesObject[]): Promise<void> {
    for (const object of objects) {
      const { kind, apiVersion, metadata } = object;
      const [group = ""] = apiVersion.includes("/") ? apiVersion.split("/") : [];
      const type = group === "" ? kind : `${kind}.${group}`;
      const place = metadata.namespace === undefined ? [] : ["-n", metadata.namespace];
      this.created.push([type, metadata.name, ...place]);
      const env = { KUBECONFIG: environment.kubeconfig };
      await outputOf(environment.kubectl, [...command, "-f", "-"], { input: toAscii(JSON.stringify(object)), env });
    }
  }

  /** Deletes an object and waits until it is gone. */
  async remove(type: string, name: string, namespace?: string): Promise<void> {
    await this.removeOne([type, name, ...(namespace === undefined ? [] : ["-n", namespace])]);
  }

  /** Deletes all objects, the last one first. */
  async removeAll(): Promise<void> {
    for (const object of this.created.splice(0).reverse()) await this.removeOne(object);
  }

  private async removeOne(object: readonly string[]): Promise<void> {
    await kubectl("delete", ...object, "--ignore-not-found", "--wait", "--timeout=50s");
  }
}

/** Escapes all but plain characters of JSON. Its lines stay. */
export function toAscii(json: string): string {
  return json.replace(/[^\n\x20-\x7e]/g, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

/** What a test needs of a TrainingJob. */
export interface TrainingJobOptions {
  readonly name: string;
  readonly namespace?: string;
  readonly pods?: number;
  readonly gpus?: number;
  readonly cpu?: string;
  readonly memory?: string;
  readonly nodeSelector?: Readonly<Record<string, string>>;
  readonly queue?: string;
  readonly command?: readonly string[];
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly env?: readonly { readonly name: string; readonly value: string }[];
  /** How often the job restarts after a failure. */
  readonly restarts?: number;
}

/** Returns a TrainingJob with one task group, `worker`. */
export function trainingJob(options: TrainingJobOptions): KubernetesObject {
  const { name, namespace = TEAM_A, pods = 1, gpus = 1, queue, command = ["sleep", "1000"], restarts = 0 } = options;
  return {
    apiVersion: "trellis.dev/v1alpha1",
    kind: "TrainingJob",
    metadata: {
      name,
      namespace,
      ...(options.labels && { labels: options.labels }),
      ...(options.annotations && { annotations: options.annotations }),
    },
    spec: {
      ...(queue !== undefined && { queueName: queue }),
      restart: { limit: restarts },
      taskGroups: [
        {
          name: "worker",
          replicas: pods,
          ...(gpus > 0 && { gpus }),
          image: "registry.example/test:1",
          command,
          ...(options.env && { env: options.env }),
          ...(options.nodeSelector && { nodeSelector: options.nodeSelector }),
          resources: { limits: { cpu: options.cpu ?? "1", memory: options.memory ?? "1Gi" } },
        },
      ],
    },
  };
}

/** Waits until a job has this phase. */
export async function waitForPhase(namespace: string, name: string, phase: string): Promise<void> {
  await kubectl("wait", "trainingjob", name, "-n", namespace, `--for=jsonpath={.status.phase}=${phase}`, "--timeout=50s");
}

/** A job that holds a node, and a job that waits for it. */
export interface WaitingJob {
  readonly holder: string;
  readonly waiting: string;
  readonly pods: number;
}

/** Creates a job on one node, and a job that needs all nodes with GPUs. */
export async function createWaitingJob(objects: TestObjects): Promise<WaitingJob> {
  return createWaiting(objects, await countNodes(() => true));
}

/** Creates a job on one node, and a job that starts when the first one ends. */
export async function createNextJob(objects: TestObjects): Promise<WaitingJob> {
  await waitForEmptyTeams();
  return createWaiting(objects, await countNodes((free) => free === GPUS_OF_NODE));
}

async function createWaiting(objects: TestObjects, pods: number): Promise<WaitingJob> {
  const holder = uniqueName("holder");
  const waiting = uniqueName("waiting");
  await objects.apply(trainingJob({ name: holder, gpus: GPUS_OF_NODE }));
  await waitForPhase(TEAM_A, holder, "Running");
  await objects.apply(trainingJob({ name: waiting, pods, gpus: GPUS_OF_NODE }));
  await waitForPhase(TEAM_A, waiting, "Queued");
  return { holder, waiting, pods };
}

/** GPUs of a simulated node. */
const GPUS_OF_NODE = 8;

/** Counts the nodes that take pods, by their free GPUs. */
export async function countNodes(hasRoom: (freeGpus: number) => boolean): Promise<number> {
  const nodes = await trellisJson<readonly NodeRow[]>("nodes");
  const gpus = nodes.filter((node) => node.schedulable).map((node) => node.resources?.find((row) => row.resource === "nvidia.com/gpu"));
  return gpus.filter((row) => row !== undefined && hasRoom(Number(row.free ?? 0))).length;
}

/** Waits until the jobs of the tests before have left their nodes. */
async function waitForEmptyTeams(): Promise<void> {
  const end = performance.now() + 40_000;
  for (;;) {
    const nodes = await trellisJson<readonly NodeRow[]>("nodes");
    const holds = nodes.flatMap((node) => node.jobs ?? []).filter(({ namespace }) => namespace === TEAM_A || namespace === TEAM_B);
    if (holds.length === 0) return;
    if (performance.now() > end) throw new Error(`jobs of other tests are still on nodes: ${JSON.stringify(holds)}`);
    await sleep(1_000);
  }
}

interface NodeRow {
  readonly schedulable: boolean;
  readonly resources?: readonly { readonly resource: string; readonly free?: string }[];
  readonly jobs?: readonly { readonly namespace: string; readonly name: string }[];
}
