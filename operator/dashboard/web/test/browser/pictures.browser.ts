/** Pictures of the page with fixed data. `UPDATE=1` writes them anew. */

import { fileURLToPath } from "node:url";

import type { BrowserContextOptions, Page } from "@playwright/test";

import { WAITING_JOB, fixMoment } from "./support/fixed";
import { type DashboardOptions, type OpenDashboard, expect, test } from "./support/test";
import { card } from "./support/views";

const JOB = `/jobs/${WAITING_JOB.namespace}/${WAITING_JOB.name}`;
const README_PICTURE = fileURLToPath(new URL("../../../../../docs/dashboard.png", import.meta.url));

const LIGHT: BrowserContextOptions = { colorScheme: "light", reducedMotion: "reduce" };

/** The views that have a picture. At most eight: each must be looked at when the page changes. */
const PICTURES: readonly {
  readonly name: string;
  readonly path: string;
  readonly context: BrowserContextOptions;
  readonly ready: (page: Page) => Promise<void>;
}[] = [
  { name: "home", path: "/", context: LIGHT, ready: (page) => expect(card(page, "Quota")).toContainText("research") },
  { name: "jobs", path: "/queue", context: LIGHT, ready: (page) => expect(page.getByRole("link", { name: "team-a/llm" })).toBeVisible() },
  { name: "timeline", path: "/queue?view=timeline", context: LIGHT, ready: (page) => expect(page.getByRole("application")).toBeVisible() },
  { name: "queues", path: "/queues", context: LIGHT, ready: (page) => expect(page.getByRole("heading", { name: "research" })).toBeVisible() },
  { name: "map", path: "/nodes", context: LIGHT, ready: (page) => expect(page.getByRole("application")).toBeVisible() },
  { name: "job", path: JOB, context: LIGHT, ready: (page) => expect(card(page, "What would help")).toBeVisible() },
  {
    name: "job-dark",
    path: JOB,
    context: { ...LIGHT, colorScheme: "dark" },
    ready: (page) => expect(card(page, "What would help")).toBeVisible(),
  },
  {
    name: "job-narrow",
    path: JOB,
    context: { ...LIGHT, viewport: { width: 360, height: 740 } },
    ready: (page) => expect(card(page, "What would help")).toBeVisible(),
  },
];

type Open = (options: DashboardOptions) => Promise<OpenDashboard>;

async function openFixed(dashboard: Open, path: string, context: BrowserContextOptions): Promise<Page> {
  const { page } = await dashboard({ path, context, prepare: fixMoment });
  return page;
}

for (const { name, path, context, ready } of PICTURES) {
  test(`picture: ${name}`, async ({ dashboard }) => {
    const page = await openFixed(dashboard, path, context);
    await ready(page);
    // Canvases are drawn in the frames after their data.
    await page.waitForTimeout(500);
    await expect(page).toHaveScreenshot(`${name}.png`, { mask: [page.locator(".freshness")] });
  });
}

test("the picture of the README is written when UPDATE is set", async ({ dashboard }) => {
  test.skip(process.env["UPDATE"] !== "1", "UPDATE=1 writes docs/dashboard.png");
  const page = await openFixed(dashboard, JOB, { ...LIGHT, viewport: { width: 1200, height: 760 }, deviceScaleFactor: 2 });
  await expect(card(page, "What would help")).toBeVisible();
  await page.waitForTimeout(500);
  await page.screenshot({ path: README_PICTURE, animations: "disabled", caret: "hide", scale: "device" });
});
