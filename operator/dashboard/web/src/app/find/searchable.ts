/** What search and palette find: the rows of the store, pages and actions. */

import { nodes, queue, session } from "../live/store";
import { cycleTheme } from "../look/theme";
import { copyLink } from "../page/copy";
import { urls } from "../page/route";
import { type Hit, type Searchable, find } from "./find";

const PAGES: readonly Hit[] = [
  { kind: "page", label: "Home", href: urls.home },
  { kind: "page", label: "Jobs", href: urls.jobs() },
  { kind: "page", label: "Queues", href: urls.queues },
  { kind: "page", label: "Nodes", href: urls.nodes() },
  { kind: "page", label: "Table of nodes", href: urls.nodes({ view: "table" }) },
  { kind: "page", label: "Timeline", href: urls.timeline() },
  { kind: "page", label: "Policies", href: urls.policies() },
  { kind: "page", label: "Plan", href: urls.plan },
  { kind: "page", label: "What if", href: urls.whatIf() },
];

const ACTIONS: readonly Hit[] = [
  { kind: "action", label: "Copy a link to this view", run: copyLink },
  { kind: "action", label: "Change the theme: system, light, dark", run: cycleTheme },
];

/** Returns the hits of the palette: rows, pages and actions. */
export function findAll(text: string): Hit[] {
  const user = session.peek()?.user;
  const mine: Hit[] = user ? [{ kind: "page", label: "My jobs", href: urls.jobs({ user }) }] : [];
  return find(text, { ...rows(), fixed: [...mine, ...PAGES, ...ACTIONS] });
}

/** Returns the hits of the search: rows, and all jobs with this text. */
export function findRows(text: string): Hit[] {
  const all: Hit = { kind: "page", label: `All jobs with “${text.trim()}”`, href: urls.jobs({ text: text.trim() }) };
  return [...find(text, { ...rows(), fixed: [] }), all];
}

function rows(): Omit<Searchable, "fixed"> {
  const jobs = queue.jobs.peek();
  const known = nodes.nodes.peek();
  return {
    jobs: jobs.values(),
    queues: queue.queues.peek()?.keys() ?? [],
    // Without the right to nodes, those that jobs name can be found.
    nodes: known.size > 0 ? known.keys() : nodesOfJobs(),
  };
}

function nodesOfJobs(): Set<string> {
  const names = new Set<string>();
  for (const job of queue.jobs.peek().values()) for (const node of job.nodes ?? []) names.add(node);
  return names;
}
