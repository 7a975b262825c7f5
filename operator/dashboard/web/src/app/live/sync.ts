/** Keeps the store current: session, lists, stream, and what to do when they fail. */

import { batch, effect } from "@preact/signals";

import type { NodesAnswer, QueueAnswer } from "../../wire/cluster";
import { serverTime } from "../server/clock";
import { answerTabs } from "../server/key-sharing";
import { RequestError, get } from "../server/request";
import { borrowKey, exchangeCode, isKeyRefusal, openSession } from "../server/session";
import { readKey } from "../server/session-key";
import { pauseAfter } from "./back-off";
import {
  clearNodes,
  clearQueue,
  firstVersion,
  nodes,
  queue,
  refusal,
  refuse,
  replaceNodes,
  replaceQueue,
  reportProblem,
  scope,
  session,
  wantsNodes,
} from "./store";
import { readStream } from "./stream";
import { whenShown, watchVisibility } from "./visibility";

/** Time for which nodes stay current after the last view that shows them. */
const NODES_LINGER_MS = 15_000;
/** Age after which the next stream asks again who the user is: rights and the server's version change. */
const SESSION_MS = 240_000;
/** Time after which a missing right to nodes is tried again. */
const NODES_RETRY_MS = 60_000;

let turn = new AbortController();
let endPause: (() => void) | undefined;
let holdsNodes = false;
let isStreaming = false;
let nodesRefusedAt = Number.NEGATIVE_INFINITY;
let sessionEndsAt = Number.NEGATIVE_INFINITY;

/** Starts to load and to follow the lists. Never returns. */
export async function keepCurrent(): Promise<never> {
  watchVisibility(() => turn.abort());
  answerTabs(readKey);
  followNodesOnDemand();
  followScope();
  followRefusal();
  let failures = 0;
  let needsCode = true;
  // Its message says what has become of the link. Later ones only say that there is no key.
  let firstRefusal: RequestError | undefined;
  for (;;) {
    await whenShown();
    turn = new AbortController();
    try {
      if (needsCode) await exchangeCode();
      needsCode = false;
      await catchUp(turn.signal);
      firstRefusal = undefined;
      isStreaming = true;
      const { lines } = await readStream(streamAddress(), turn.signal);
      failures = lines > 0 ? 0 : failures + 1;
      // A server that ends each stream at once must not be asked in a loop.
      if (lines === 0) await pause(pauseAfter(failures, "", undefined, Math.random()));
    } catch (thrown) {
      if (turn.signal.aborted) continue;
      needsCode = false;
      if (isKeyRefusal(thrown)) {
        firstRefusal ??= thrown;
        if (await borrowKey()) continue;
      }
      failures += 1;
      await handleFailure(isKeyRefusal(thrown) ? (firstRefusal ?? thrown) : thrown, failures);
      firstRefusal = undefined;
    } finally {
      isStreaming = false;
    }
  }
}

/** Asks again at once, instead of after the pause. */
export function retryNow(): void {
  nodesRefusedAt = Number.NEGATIVE_INFINITY;
  endPause?.();
}

async function catchUp(signal: AbortSignal): Promise<void> {
  if (session.peek() === undefined || performance.now() > sessionEndsAt) {
    const opened = await openSession(signal);
    sessionEndsAt = performance.now() + SESSION_MS;
    batch(() => {
      refusal.value = undefined;
      session.value = opened;
      firstVersion.value ??= opened.version;
      if (!opened.may.allJobs) scope.value ??= opened.namespace;
    });
  }
  if (queue.version.peek() === undefined) {
    replaceQueue(await get<QueueAnswer>(`/api/queue${scopeQuery("?")}`, signal));
  }
  const maySeeNodes = performance.now() - nodesRefusedAt > NODES_RETRY_MS;
  if (holdsNodes && nodes.version.peek() === undefined && maySeeNodes) await loadNodes(signal);
}

/** A user without the right to nodes still sees jobs and queues. */
async function loadNodes(signal: AbortSignal): Promise<void> {
  try {
    replaceNodes(await get<NodesAnswer>("/api/nodes", signal));
  } catch (error) {
    if (!(error instanceof RequestError) || isRefusal(error.kind)) throw error;
    nodesRefusedAt = performance.now();
    reportProblem(nodes, error);
  }
}

function streamAddress(): string {
  const parameters = [`queue=${encodeURIComponent(queue.version.peek() ?? "")}`];
  const nodesVersion = nodes.version.peek();
  if (holdsNodes && nodesVersion !== undefined) parameters.push(`nodes=${encodeURIComponent(nodesVersion)}`);
  return `/api/stream?${parameters.join("&")}${scopeQuery("&")}`;
}

function scopeQuery(separator: string): string {
  const namespace = scope.peek();
  return namespace === undefined ? "" : `${separator}namespace=${encodeURIComponent(namespace)}`;
}

const isRefusal = (kind: string): boolean => kind === "key" || kind === "unauthorized";

async function handleFailure(error: unknown, failures: number): Promise<void> {
  sessionEndsAt = Number.NEGATIVE_INFINITY;
  if (!(error instanceof RequestError)) {
    // A fault of this page. It is in the console, and the page goes on with the data that it has.
    console.error(error);
    await pause(pauseAfter(failures, "", undefined, Math.random()));
    return;
  }
  const seconds = pauseAfter(failures, error.kind, error.retryAfter, Math.random());
  if (isRefusal(error.kind)) refuse(error);
  else {
    const retryAt = new Date(serverTime().getTime() + seconds * 1_000);
    reportProblem(queue, error, retryAt);
    if (nodes.version.peek() !== undefined) reportProblem(nodes, error, retryAt);
  }
  // A key is valid for one run of the server, so that a retry would fail, too.
  await pause(error.kind === "key" ? Number.POSITIVE_INFINITY : seconds);
}

function pause(seconds: number): Promise<void> {
  return new Promise((resolve) => {
    const timer = Number.isFinite(seconds) ? setTimeout(resolve, seconds * 1_000) : undefined;
    endPause = () => {
      clearTimeout(timer);
      resolve();
    };
  });
}

function followNodesOnDemand(): void {
  let release: ReturnType<typeof setTimeout> | undefined;
  effect(() => {
    clearTimeout(release);
    if (wantsNodes.value) {
      if (holdsNodes) return;
      holdsNodes = true;
      // Before the stream, the nodes are still to be loaded.
      if (isStreaming) turn.abort();
      return;
    }
    release = setTimeout(() => {
      if (!holdsNodes) return;
      holdsNodes = false;
      clearNodes();
      if (isStreaming) turn.abort();
    }, NODES_LINGER_MS);
  });
}

/** A view may be refused while the stream of the list is still open. */
function followRefusal(): void {
  effect(() => {
    if (refusal.value && isStreaming) turn.abort();
  });
}

function followScope(): void {
  let before = scope.peek();
  effect(() => {
    if (scope.value === before) return;
    const isFirst = before === undefined && queue.version.peek() === undefined;
    before = scope.value;
    if (isFirst) return;
    clearQueue();
    turn.abort();
    endPause?.();
  });
}
