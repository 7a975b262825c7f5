/** The text of the plan page: example, size, and places in it. Pure. */

import type { PlanRequest } from "../../wire/plan";

/** A small job to begin with. */
export const EXAMPLE = `# Two pods with one GPU each: both are placed at once, or neither is.
apiVersion: trellis.dev/v1alpha1
kind: TrainingJob
metadata:
  name: two-gpus
spec:
  taskGroups:
  - name: worker
    replicas: 2
    gpus: 1
    image: nvidia/cuda:12.6.3-base-ubuntu24.04
    command: [sh, -c, "nvidia-smi -L && sleep 30"]
    resources: {limits: {cpu: 1, memory: 1Gi}}
`;

/** Largest request that the server reads, in bytes. */
const MAX_BYTES = 256 * 1024;

/** The largest text, in words. */
export const MAX_SIZE = "256 KiB";

/** True if the server reads a request of this size. */
export function fitsRequest(request: PlanRequest): boolean {
  return new TextEncoder().encode(JSON.stringify(request)).length <= MAX_BYTES;
}

/** True if a file of this size may fit a request. */
export function mayFit(bytes: number): boolean {
  return bytes <= MAX_BYTES;
}

/** Returns the texts of files as one text, with the line breaks of a text area. */
export function joinFiles(texts: readonly string[]): string {
  const clean = texts.map((text) => text.replace(/^\ufeff/, "").replace(/\r\n?/g, "\n"));
  return clean.reduce((all, text) => (all === "" ? text : `${all.replace(/\n?$/, "\n")}---\n${text}`), "");
}

/** Returns the offset of a line and a column, both from 1. A place outside the text gives the nearest one. */
export function offsetOf(text: string, line: number, column: number): number {
  let start = 0;
  for (let at = 1; at < line; at += 1) {
    const end = text.indexOf("\n", start);
    if (end < 0) break;
    start = end + 1;
  }
  const lineEnd = text.indexOf("\n", start);
  const content = text.slice(start, lineEnd < 0 ? text.length : lineEnd);
  // A column is a character, which may be two units of the text.
  const before = [...content].slice(0, Math.max(0, column - 1)).join("");
  return start + before.length;
}
