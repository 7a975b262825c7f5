/** Reads the stream of changed rows, and applies all rows that came within one frame at once. */

import type { NodesDelta, QueueDelta, StreamLine, WireError } from "../../wire/cluster";
import { RequestError, asRequestError, send } from "../server/request";
import { LineParser } from "./ndjson";
import { nodes, queue, reportProblem, updateNodes, updateQueue } from "./store";

/** What the end of a stream asks for. */
export interface StreamEnd {
  /** Lines that came. Zero: the server may be in trouble. */
  readonly lines: number;
}

/** Follows the lists until the server ends the stream or `signal` aborts it. */
export async function readStream(address: string, signal: AbortSignal): Promise<StreamEnd> {
  const response = await send(address, { signal });
  const reader = response.body?.getReader();
  if (!reader) return { lines: 0 };
  const parser = new LineParser();
  const inbox = new Inbox();
  let lines = 0;
  try {
    for (;;) {
      const { done, value } = await readChunk(reader);
      if (done) return { lines };
      for (const line of parser.push(value) as StreamLine[]) {
        lines += 1;
        if (!endsStream(line)) {
          inbox.add(line);
          continue;
        }
        inbox.flush();
        endStream(line);
        return { lines };
      }
    }
  } finally {
    inbox.flush();
    // Without this, an abandoned stream would hold one of the browser's few connections.
    reader.cancel().catch(() => undefined);
  }
}

/** Silence after which a stream is given up: the server speaks every 5 seconds. */
const SILENCE_MS = 20_000;

async function readChunk(
  reader: ReadableStreamDefaultReader<Uint8Array>,
): Promise<ReadableStreamReadResult<Uint8Array>> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const silence = new Promise<never>((_, reject) => {
    const error = new RequestError("silent", "The connection is open, but nothing comes. The page opens another one.");
    timer = setTimeout(() => reject(error), SILENCE_MS);
  });
  try {
    return await Promise.race([reader.read(), silence]);
  } catch (error) {
    throw asRequestError(error);
  } finally {
    clearTimeout(timer);
  }
}

type EndingLine = Extract<StreamLine, { readonly reset: true } | { readonly error: WireError }>;

/** After a reset, or when a right is gone, rows that follow would belong to no list. */
function endsStream(line: StreamLine): line is EndingLine {
  return "reset" in line || ("error" in line && isRefusal(line.error.kind));
}

/** The caller asks for the whole list and opens the next stream, or waits after a refusal. */
function endStream(line: EndingLine): void {
  const list = line.list === "queue" ? queue : nodes;
  if ("reset" in line) list.version.value = undefined;
  // The user without a right to nodes still sees jobs and queues.
  else if (line.list === "nodes" && line.error.kind === "denied") reportProblem(list, line.error);
  else throw new RequestError(line.error.kind, line.error.message);
}

const isRefusal = (kind: string): boolean => kind === "key" || kind === "unauthorized" || kind === "denied";

/** Lines that have not been applied yet. */
class Inbox {
  private lines: StreamLine[] = [];
  private isPlanned = false;

  add(line: StreamLine): void {
    this.lines.push(line);
    if (this.isPlanned) return;
    this.isPlanned = true;
    // A hidden tab has no frames.
    if (document.hidden) setTimeout(() => this.flush(), 1_000);
    else requestAnimationFrame(() => this.flush());
  }

  flush(): void {
    this.isPlanned = false;
    const lines = this.lines;
    this.lines = [];
    applyLines(lines);
  }
}

/** Applies lines in order, with one update of each list. */
export function applyLines(lines: readonly StreamLine[]): void {
  const queueDeltas: QueueDelta[] = [];
  const nodesDeltas: NodesDelta[] = [];
  for (const line of lines) {
    if ("error" in line) {
      applyDeltas();
      reportProblem(line.list === "queue" ? queue : nodes, line.error);
    } else if (!("reset" in line)) {
      if (line.list === "queue") queueDeltas.push(line);
      else nodesDeltas.push(line);
    }
  }
  applyDeltas();

  function applyDeltas(): void {
    updateQueue(queueDeltas.splice(0));
    updateNodes(nodesDeltas.splice(0));
  }
}
