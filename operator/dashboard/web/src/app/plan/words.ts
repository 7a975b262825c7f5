/** A plan in words: verdicts, sentences with links, failures and the command that follows. Pure. */

import type { WireError } from "../../wire/cluster";
import type { Sentence, Span } from "../../wire/job";
import type { PlannedJob } from "../../wire/plan";
import { type ProblemText, describeFailure } from "../live/problem-text";
import type { IconName } from "../look/icons";
import type { Tone } from "../look/phases";
import { command } from "../text/shell-quote";

interface VerdictLook {
  readonly tone: Tone;
  readonly icon: IconName;
}

/** The verdicts in the order of `trellis plan`. */
const VERDICTS: Readonly<Record<string, VerdictLook>> = {
  "would run": { tone: "good", icon: "play" },
  "would wait": { tone: "waiting", icon: "clock" },
  "would be Refused": { tone: "bad", icon: "ban" },
  "would not run": { tone: "still", icon: "cross" },
};

/** Returns the look of a verdict. A word that this page does not know is shown as it is. */
export function verdictLook(verdict: string): VerdictLook {
  const look = Object.hasOwn(VERDICTS, verdict) ? VERDICTS[verdict] : undefined;
  return look ?? { tone: "still", icon: "help" };
}

/** Verdicts that are counted also if no job has them. */
const ALWAYS_COUNTED = ["would run", "would wait"];

/** Sums up all jobs in one line, as `trellis plan` does. */
export function summarizePlan(jobs: readonly PlannedJob[]): string {
  const [first, second] = jobs;
  if (!first) return "no job was planned";
  if (!second) return `${first.namespace}/${first.name} ${first.verdict}`;
  const words = new Set([...Object.keys(VERDICTS), ...jobs.map((job) => job.verdict)]);
  const counts = [...words].map((verdict) => ({ verdict, count: jobs.filter((job) => job.verdict === verdict).length }));
  const shown = counts.filter(({ verdict, count }) => count > 0 || ALWAYS_COUNTED.includes(verdict));
  return `${jobs.length} jobs: ${shown.map(({ verdict, count }) => `${count} ${verdict}`).join(", ")}`;
}

/** Names that exist. What they name gets a link. */
export interface KnownNames {
  readonly isJob: (key: string) => boolean;
  readonly isQueue: (name: string) => boolean;
}

/** A name of a node, after the words that stand before one: `8 on each of gpu-0..gpu-3`. */
const NODE = /(?<= on | of |\.\.| node )[a-z0-9](?:[-a-z0-9]*[a-z0-9])?(?:\.[a-z0-9](?:[-a-z0-9]*[a-z0-9])?)*/g;

/** Returns a line of the plan as a sentence whose names are links. */
export function lineSentence(job: PlannedJob, section: string, line: string, known: KnownNames): Sentence {
  switch (section) {
    case "queue": {
      const name = line.replace(/, priority -?\d+$/, "");
      return known.isQueue(name) ? afterSpan({ text: name, queue: name }, line) : [{ text: line }];
    }
    case "preempts": {
      const key = line.slice(0, Math.max(0, line.indexOf(": ")));
      const [namespace = "", name = ""] = key.split("/");
      return known.isJob(key) ? afterSpan({ text: key, job: { namespace, name } }, line) : [{ text: line }];
    }
    default:
      return linkNodes(line, new Set(job.nodes));
  }
}

function afterSpan(span: Span, line: string): Sentence {
  return [span, { text: line.slice(span.text.length) }];
}

function linkNodes(line: string, nodes: ReadonlySet<string>): Sentence {
  const spans: Span[] = [];
  let end = 0;
  for (const { 0: name, index } of line.matchAll(NODE)) {
    if (!nodes.has(name)) continue;
    if (index > end) spans.push({ text: line.slice(end, index) });
    spans.push({ text: name, node: name });
    end = index + name.length;
  }
  if (end < line.length) spans.push({ text: line.slice(end) });
  return spans;
}

/** Returns the nodes that no line names, since a line has only the ends of `gpu-0..gpu-3`. */
export function unnamedNodes(job: PlannedJob): string[] {
  const all = new Set(job.nodes);
  const sentences = job.sections.flatMap(({ lines }) => lines.map((line) => linkNodes(line, all)));
  for (const { node } of sentences.flat()) if (node !== undefined) all.delete(node);
  return [...all];
}

/** Returns the command that submits the text after it was saved as `job.yaml`. */
export function submitCommand(jobs: readonly PlannedJob[], context: string | null | undefined): string {
  const [namespace, ...others] = new Set(jobs.map((job) => job.namespace));
  // With several namespaces, each job names its own.
  const where = namespace !== undefined && others.length === 0 ? ["-n", namespace] : [];
  return command("trellis", "submit", "-f", "job.yaml", ...where, ...(context ? ["--context", context] : []));
}

const TITLES: Readonly<Record<string, string>> = {
  notFound: "This server has no plans",
  busy: "The operator is busy with other questions",
  invalid: "This cannot be planned",
  denied: "You may not plan",
  unreachable: "The cluster could not be reached",
  unavailable: "The operator has not planned",
  internal: "The plan has failed",
};

/** Returns the namespace that a refusal of the API server names. */
export function refusedNamespace(message: string): string | undefined {
  return / in the namespace "([a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?)"/.exec(message)?.[1];
}

/** Describes why there is no plan. */
export function describePlanFailure(error: WireError, since: Date): ProblemText {
  return describeFailure(TITLES, error, since);
}
