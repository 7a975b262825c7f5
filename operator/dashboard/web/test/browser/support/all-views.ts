/** All views of the page, for tests that hold for each of them. */

import { type Page, expect } from "@playwright/test";

import { TEAM_A, type WaitingJob } from "./cluster";
import type { OpenDashboard } from "./test";
import { card, goTo, jobRow } from "./views";

/** A view of the page. */
export interface View {
  readonly name: string;
  readonly path: () => string;
  /** Waits until its data are there. */
  readonly ready: (page: Page) => Promise<void>;
}

/** Returns all views. The jobs are read when a view is opened. */
export function listViews(jobs: () => WaitingJob): readonly View[] {
  return [
    { name: "home", path: () => "/", ready: (page) => expect(card(page, "My jobs")).toBeVisible() },
    { name: "jobs", path: () => "/queue", ready: (page) => expect(jobRow(page, TEAM_A, jobs().waiting)).toBeVisible() },
    {
      name: "timeline",
      path: () => "/queue?view=timeline",
      ready: (page) => expect(page.getByRole("application", { name: "Timeline of jobs" })).toBeVisible(),
    },
    { name: "queues", path: () => "/queues?open=default", ready: (page) => expect(page.getByRole("heading", { name: "default" })).toBeVisible() },
    { name: "queue", path: () => "/queues/default", ready: (page) => expect(card(page, "Quota")).toBeVisible() },
    { name: "map", path: () => "/nodes", ready: (page) => expect(page.getByRole("application", { name: "Cluster map" })).toBeVisible() },
    { name: "table of nodes", path: () => "/nodes?view=table", ready: (page) => expect(page.getByRole("link", { name: "gpu-0" })).toBeVisible() },
    { name: "node", path: () => "/nodes/gpu-0", ready: (page) => expect(card(page, "Resources")).toBeVisible() },
    { name: "waiting job", path: () => `/jobs/${TEAM_A}/${jobs().waiting}`, ready: (page) => expect(card(page, "What would help")).toBeVisible() },
    { name: "running job", path: () => `/jobs/${TEAM_A}/${jobs().holder}`, ready: (page) => expect(card(page, "Gang")).toBeVisible() },
    { name: "policies", path: () => "/policies", ready: (page) => expect(card(page, "Job policies")).toContainText("starter") },
    { name: "policy", path: () => "/policies/starter", ready: (page) => expect(card(page, "ClusterJobPolicy")).toBeVisible() },
    { name: "plan", path: () => "/plan", ready: (page) => expect(page.getByRole("button", { name: "Plan it" })).toBeVisible() },
    { name: "what if", path: () => "/what-if", ready: (page) => expect(card(page, "Changes")).toBeVisible() },
    { name: "no page", path: () => "/none", ready: (page) => expect(page.getByRole("heading", { level: 1 })).toBeVisible() },
  ];
}

/** Goes to a view and waits for its data. */
export async function openView({ page }: OpenDashboard, view: View): Promise<void> {
  await goTo(page, view.path());
  await view.ready(page);
  // Late parts, such as the canvas and its legend.
  await page.waitForTimeout(300);
}
