/** Names and colour numbers of gangs. */

import { jobLabel } from "../../app/text/format";
import type { JobRef } from "../../wire/cluster";

/** Number of colours of gangs and queues. */
export const GANG_COLOURS = 12;

/** Returns the key of a job: `namespace/name`. */
export function gangKey(job: JobRef): string {
  return `${job.namespace}/${job.name}`;
}

/** Returns the job of a key. A key without a namespace has an empty one. */
export function gangOfKey(key: string): JobRef {
  const slash = key.indexOf("/");
  return { namespace: key.slice(0, Math.max(slash, 0)), name: key.slice(slash + 1) };
}

/** Returns the name of a job as messages have it: `team/llm`, `team/PodGroup/sweep`, `team/Pod/w-0`. */
export function gangTitle(job: JobRef): string {
  return `${job.namespace}/${jobLabel(job.name)}`;
}

/**
 * Returns the colour number of a name, from 0 to {@link GANG_COLOURS} - 1. The same name has the same
 * colour on every page and on every day. FNV-1a with a final mix: names of gangs differ in their
 * last characters, which plain FNV-1a barely spreads over twelve values.
 */
export function colourNumber(name: string): number {
  let hash = 0x811c9dc5;
  for (let index = 0; index < name.length; index += 1) {
    hash = Math.imul(hash ^ name.charCodeAt(index), 0x01000193);
  }
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return ((hash ^ (hash >>> 16)) >>> 0) % GANG_COLOURS;
}
