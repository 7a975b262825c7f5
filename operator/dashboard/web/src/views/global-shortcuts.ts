/** Shortcuts that work on every page. */

import { session } from "../app/live/store";
import { copyLink } from "../app/page/copy";
import { useShortcuts } from "../app/page/keys";
import { type Page, canGoBack, navigate, page, query, setQuery, urls } from "../app/page/route";
import { focusSearch } from "../parts/Search";

/** Adds the shortcuts of all pages. */
export function useGlobalShortcuts(overlays: {
  readonly openHelp: () => void;
  readonly openPalette: () => void;
}): void {
  useShortcuts("Everywhere", [
    { keys: "/", label: "Search", run: () => focusSearch() || overlays.openPalette() },
    { keys: "Ctrl-K", label: "Go to a job, queue, node or page" },
    { keys: "j", label: "Next row", run: () => moveRow(1) },
    { keys: "k", label: "Previous row", run: () => moveRow(-1) },
    { keys: "Enter", label: "Open the row" },
    { keys: "Escape", label: "Back", run: goBack },
    { keys: "m", label: "My jobs, or all jobs", run: toggleMine },
    { keys: "t", label: "Timeline, or table of jobs", run: toggleTimeline },
    { keys: "y", label: "Copy a link to this view", run: copyLink },
    { keys: "?", label: "Help", run: overlays.openHelp },
  ]);
  useShortcuts("Go to", [
    { keys: "g h", label: "Home", run: () => navigate(urls.home) },
    { keys: "g q", label: "Jobs", run: () => navigate(urls.jobs()) },
    { keys: "g t", label: "Timeline", run: () => navigate(urls.timeline()) },
    { keys: "g u", label: "Queues", run: () => navigate(urls.queues) },
    { keys: "g n", label: "Nodes", run: () => navigate(urls.nodes()) },
    { keys: "g o", label: "Policies", run: () => navigate(urls.policies()) },
    { keys: "g p", label: "Plan", run: () => navigate(urls.plan) },
    { keys: "g w", label: "What if", run: () => navigate(urls.whatIf()) },
  ]);
}

/** Moves the focus between rows: elements with `data-row`, in the order of the page. */
function moveRow(step: 1 | -1): void {
  const rows = [...document.querySelectorAll<HTMLElement>("main [data-row]")].sort(
    (a, b) => a.getBoundingClientRect().top - b.getBoundingClientRect().top,
  );
  const current = rows.findIndex((row) => row === document.activeElement);
  const headerBottom = document.querySelector("header")?.getBoundingClientRect().bottom ?? 0;
  const firstInView = rows.findIndex((row) => row.getBoundingClientRect().top >= headerBottom);
  const next = current < 0 ? firstInView : current + step;
  const row = rows[Math.max(0, next)];
  row?.focus();
  row?.scrollIntoView({ block: "nearest" });
}

const PARENTS: Partial<Record<Page["page"], string>> = {
  job: urls.jobs(),
  queue: urls.queues,
  node: urls.nodes(),
  policy: urls.policies(),
};

/** Leaves a row, else the page of one job, queue, node or policy. */
function goBack(): void {
  const focused = document.activeElement;
  if (focused instanceof HTMLElement && focused.matches("[data-row]")) {
    focused.blur();
    return;
  }
  const parent = PARENTS[page.peek().page];
  if (parent === undefined) return;
  if (canGoBack()) history.back();
  else navigate(parent);
}

function toggleMine(): void {
  const user = session.peek()?.user;
  if (user === undefined) return;
  if (page.peek().page !== "jobs") navigate(urls.jobs({ user }));
  else setQuery({ user: query.peek().get("user") === user ? undefined : user }, { step: true });
}

function toggleTimeline(): void {
  if (page.peek().page !== "jobs") navigate(urls.timeline());
  else setQuery({ view: query.peek().get("view") === "timeline" ? undefined : "timeline" }, { step: true });
}
