/** The page in narrow windows: phones, and a zoom of 200 % (WCAG 2.2 AA). */

import { listViews, openView } from "./support/all-views";
import { TEAM_A, TestObjects, type WaitingJob, createWaitingJob } from "./support/cluster";
import { expect, test } from "./support/test";
import { findOverflow } from "./support/text-only";
import { card, goTo, verdict } from "./support/views";

/** The jobs are the same for all tests of this file. */
let jobs: WaitingJob;
const shared = new TestObjects();
const VIEWS = listViews(() => jobs);

test.beforeAll(async () => {
  jobs = await createWaitingJob(shared);
});

test.afterAll(() => shared.removeAll());

for (const [size, options] of [
  ["360 px", { viewport: { width: 360, height: 740 } }],
  ["320 px, the reflow of WCAG 1.4.10", { viewport: { width: 320, height: 640 } }],
  ["a zoom of 200 % in a window of 1280 px", { viewport: { width: 640, height: 400 }, deviceScaleFactor: 2 }],
] as const) {
  test(`no page scrolls to the side: ${size}`, async ({ dashboard }) => {
    const opened = await dashboard({ context: options });
    for (const view of VIEWS) {
      await openView(opened, view);
      expect.soft(await findOverflow(opened.page), view.name).toEqual([]);
    }
  });
}

test("home, the page of a job and the age of the data are usable at 360 px", async ({ dashboard }) => {
  const opened = await dashboard({ context: { viewport: { width: 360, height: 740 }, hasTouch: true } });
  const { page } = opened;
  await expect(page.locator(".freshness")).toBeInViewport();
  await goTo(page, `/jobs/${TEAM_A}/${jobs.waiting}`);
  await expect(verdict(page).locator(".verdict-message")).toBeInViewport();
  await page.getByRole("button", { name: "Search" }).tap();
  await page.getByRole("combobox", { name: /^Go to/ }).fill(jobs.holder);
  await page.getByRole("option", { name: new RegExp(jobs.holder) }).tap();
  await expect(page.getByRole("heading", { level: 1 })).toHaveText(jobs.holder);
});

test("the home page of a user without jobs does not scroll to the side", async ({ dashboard }) => {
  const { page } = await dashboard({ user: "viewer", context: { viewport: { width: 320, height: 640 } } });
  await expect(card(page, "My jobs")).toContainText("No job of yours waits or runs.");
  await expect(page.locator(".command").first()).toBeVisible();
  expect(await findOverflow(page)).toEqual([]);
});

for (const width of [360, 320]) {
  test(`the links to all areas are in sight at ${width} px`, async ({ dashboard }) => {
    const { page } = await dashboard({ context: { viewport: { width, height: 640 } } });
    const links = page.getByRole("navigation", { name: "Areas" }).getByRole("link");
    await expect(links).toHaveCount(8);
    for (const link of await links.all()) await expect(link).toBeInViewport({ ratio: 1 });
  });
}
