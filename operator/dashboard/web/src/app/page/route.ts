/** The URL of the page: which page it names, and how it changes without a reload. */

import { batch, computed, signal } from "@preact/signals";

import type { JobRef } from "../../wire/cluster";
import type { PolicyRef } from "../policy/policy-ref";

/** A page with the names that its URL holds. */
export type Page =
  | { readonly page: "home" }
  | { readonly page: "jobs" }
  | { readonly page: "queues" }
  | { readonly page: "queue"; readonly name: string }
  | { readonly page: "nodes" }
  | { readonly page: "node"; readonly name: string }
  | { readonly page: "policies" }
  | { readonly page: "policy"; readonly name: string }
  | { readonly page: "plan" }
  | { readonly page: "whatIf" }
  | { readonly page: "job"; readonly namespace: string; readonly name: string }
  | { readonly page: "notFound" };

/** Returns the page of a path. A path that names no page gives `notFound`. */
export function parsePath(path: string): Page {
  const parts = path.split("/").filter((part) => part !== "");
  const names = parts.map(decodePart);
  if (names.some((name) => name === undefined)) return { page: "notFound" };
  const [area, first, second, ...rest] = names as string[];
  if (rest.length > 0) return { page: "notFound" };
  switch (area) {
    case undefined:
      return { page: "home" };
    case "queue":
      return first === undefined ? { page: "jobs" } : { page: "notFound" };
    case "queues":
      if (second !== undefined) return { page: "notFound" };
      return first === undefined ? { page: "queues" } : { page: "queue", name: first };
    case "nodes":
      if (second !== undefined) return { page: "notFound" };
      return first === undefined ? { page: "nodes" } : { page: "node", name: first };
    case "policies":
      if (second !== undefined) return { page: "notFound" };
      return first === undefined ? { page: "policies" } : { page: "policy", name: first };
    case "plan":
      return first === undefined ? { page: "plan" } : { page: "notFound" };
    case "what-if":
      return first === undefined ? { page: "whatIf" } : { page: "notFound" };
    case "jobs":
      if (first === undefined || second === undefined) return { page: "notFound" };
      return { page: "job", namespace: first, name: second };
    default:
      return { page: "notFound" };
  }
}

function decodePart(part: string): string | undefined {
  try {
    return decodeURIComponent(part);
  } catch {
    return undefined;
  }
}

/** Encodes one part of a path. A browser would resolve the parts `.` and `..`. */
function encodePart(part: string): string {
  const encoded = encodeURIComponent(part);
  return /^\.{1,2}$/.test(encoded) ? encoded.replaceAll(".", "%2E") : encoded;
}

/** Query parameters by name. An empty or undefined value removes the parameter. */
export type QueryChanges = Readonly<Record<string, string | undefined>>;

function withQuery(path: string, query: QueryChanges): string {
  const params = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) if (value) params.set(name, value);
  const text = params.toString();
  return text ? `${path}?${text}` : path;
}

/** The URLs of all pages. */
export const urls = {
  home: "/",
  jobs: (query: QueryChanges = {}): string => withQuery("/queue", query),
  timeline: (query: QueryChanges = {}): string => withQuery("/queue", { ...query, view: "timeline" }),
  queues: "/queues",
  queue: (name: string): string => `/queues/${encodePart(name)}`,
  nodes: (query: QueryChanges = {}): string => withQuery("/nodes", query),
  node: (name: string): string => `/nodes/${encodePart(name)}`,
  policies: (query: QueryChanges = {}): string => withQuery("/policies", query),
  /** The kind and the namespace tell policies of one name apart. */
  policy: ({ kind, namespace, name }: PolicyRef): string => withQuery(`/policies/${encodePart(name)}`, { kind, namespace }),
  plan: "/plan",
  whatIf: (query: QueryChanges = {}): string => withQuery("/what-if", query),
  job: (job: JobRef): string => `/jobs/${encodePart(job.namespace)}/${encodePart(job.name)}`,
} as const;

/** The path of the URL. */
export const path = signal("/");

/** The query of the URL, as text without `?`. */
export const search = signal("");

/** The query of the URL. */
export const query = computed(() => new URLSearchParams(search.value));

/** The page that the URL names. */
export const page = computed(() => parsePath(path.value));

/** How the last change of the path came about: it decides focus and scroll position. */
export const arrival = signal<{ readonly by: "load" | "link" | "history"; readonly scroll: number }>({
  by: "load",
  scroll: 0,
});

/** What the browser keeps with an entry of its history. */
interface HistoryState {
  readonly scroll: number;
  /** Entries of this page before it. */
  readonly depth: number;
}

/** True if the entry before in the history is of this page. */
export function canGoBack(): boolean {
  return readState().depth > 0;
}

/** Goes to a URL of this page. */
export function navigate(href: string, options: { readonly replace?: boolean } = {}): void {
  const target = new URL(href, location.href);
  if (target.origin !== location.origin) return;
  if (!options.replace) saveScroll();
  const address = target.pathname + target.search;
  writeState(0, address, !options.replace);
  readLocation({ by: "link", scroll: 0 });
}

/**
 * Changes parameters of the query.
 *
 * `step` adds an entry to the history. Without it, Back skips the change, as is right for typing.
 */
export function setQuery(changes: QueryChanges, options: { readonly step?: boolean } = {}): void {
  const params = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(changes)) {
    if (value) params.set(name, value);
    else params.delete(name);
  }
  const text = params.toString();
  const address = location.pathname + (text ? `?${text}` : "");
  if (address === location.pathname + location.search) return;
  saveScroll();
  writeState(scrollY, address, options.step ?? false);
  search.value = text;
}

/** Starts to follow the URL and clicks on links. */
export function startRouter(): void {
  history.scrollRestoration = "manual";
  readLocation({ by: "load", scroll: readState().scroll });
  addEventListener("popstate", () => readLocation({ by: "history", scroll: readState().scroll }));
  addEventListener("pagehide", saveScroll);
  document.addEventListener("click", followLink);
}

function readLocation(how: { readonly by: "load" | "link" | "history"; readonly scroll: number }): void {
  batch(() => {
    const isNewPath = path.peek() !== location.pathname;
    path.value = location.pathname;
    search.value = location.search.slice(1);
    if (isNewPath || how.by !== "link") arrival.value = how;
  });
}

function saveScroll(): void {
  history.replaceState({ ...readState(), scroll: scrollY }, "");
}

function writeState(scroll: number, address: string, isStep: boolean): void {
  const { depth } = readState();
  if (isStep) history.pushState({ scroll, depth: depth + 1 }, "", address);
  else history.replaceState({ scroll, depth }, "", address);
}

function readState(): HistoryState {
  const state = history.state as Partial<HistoryState> | null;
  return { scroll: Number(state?.scroll ?? 0), depth: Number(state?.depth ?? 0) };
}

/** Handles plain clicks on links to this page, so that a link needs nothing but its `href`. */
function followLink(event: MouseEvent): void {
  const isPlain =
    event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey;
  if (!isPlain || event.defaultPrevented || !(event.target instanceof Element)) return;
  const link = event.target.closest("a[href]");
  if (!(link instanceof HTMLAnchorElement)) return;
  const isOwn = link.origin === location.origin && !link.target && !link.hasAttribute("download");
  // A link to a place on the same page is the browser's.
  if (!isOwn || link.getAttribute("href")?.startsWith("#")) return;
  event.preventDefault();
  navigate(link.href);
}
