/** Finds jobs, queues and nodes by a part of their name. Pure. */

import type { JobState } from "../../wire/cluster";
import { searchText } from "../job/jobs";
import { urls } from "../page/route";
import { jobLabel } from "../text/format";

/** Something that the search has found. */
export interface Hit {
  readonly kind: "page" | "queue" | "job" | "node" | "action";
  readonly label: string;
  readonly detail?: string;
  readonly href?: string;
  readonly run?: () => void;
}

/** What the search looks at. */
export interface Searchable {
  readonly jobs: Iterable<JobState>;
  readonly queues: Iterable<string>;
  readonly nodes: Iterable<string>;
  readonly fixed: readonly Hit[];
}

/** Hits of each kind. */
const MAX_HITS = 8;
const MAX_FIXED = 12;

/** Returns the best hits: names that begin with the text come first. */
export function find(text: string, all: Searchable): Hit[] {
  const words = text.trim().toLowerCase().split(/\s+/).filter(Boolean);
  const fixed = best(all.fixed, words, (hit) => hit.label.toLowerCase(), MAX_FIXED);
  if (words.length === 0) return fixed;
  const queues = best(all.queues, words, (name) => name.toLowerCase(), MAX_HITS);
  const jobs = best(all.jobs, words, searchText, MAX_HITS);
  const nodes = best(all.nodes, words, (name) => name.toLowerCase(), MAX_HITS);
  const hits = [
    ...fixed,
    ...queues.map((name): Hit => ({ kind: "queue", label: name, href: urls.queue(name) })),
    ...jobs.map(jobHit),
    ...nodes.map((name): Hit => ({ kind: "node", label: name, href: urls.node(name) })),
  ];
  // A name that was typed as a whole comes before all that contains it.
  const typed = words.join(" ");
  const isExact = (hit: Hit): boolean => hit.label.toLowerCase() === typed;
  return [...hits.filter(isExact), ...hits.filter((hit) => !isExact(hit))];
}

function jobHit(job: JobState): Hit {
  const { namespace = "", name } = job.metadata;
  const label = `${namespace}/${jobLabel(name)}`;
  const detail = [job.phase ?? "Queued", job.queue, job.user].filter(Boolean).join(" · ");
  return { kind: "job", label, detail, href: urls.job({ namespace, name }) };
}

function best<Item>(
  items: Iterable<Item>,
  words: readonly string[],
  textOf: (item: Item) => string,
  limit: number,
): Item[] {
  const found: { readonly item: Item; readonly rank: number }[] = [];
  for (const item of items) {
    const text = textOf(item);
    if (!words.every((word) => text.includes(word))) continue;
    found.push({ item, rank: rankOf(text, words[0] ?? "") });
  }
  found.sort((a, b) => a.rank - b.rank);
  return found.slice(0, limit).map(({ item }) => item);
}

/** 0: the name, or its part after the namespace, begins with the word. 1: the name has it. 2: other text has it. */
function rankOf(text: string, word: string): number {
  const place = text.indexOf(word);
  if (place === 0 || text.startsWith(word, text.indexOf("/") + 1)) return 0;
  const nameEnd = text.indexOf("\n");
  return nameEnd < 0 || place < nameEnd ? 1 : 2;
}
