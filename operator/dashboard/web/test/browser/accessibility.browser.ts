/** The page for people who do not see it, see little, or want no motion (WCAG 2.2 AA). */

import AxeBuilder from "@axe-core/playwright";
import type { Page } from "@playwright/test";

import { listViews, openView } from "./support/all-views";
import { TEAM_A, TestObjects, type WaitingJob, createWaitingJob } from "./support/cluster";
import { expect, test } from "./support/test";
import { jobRow, verdict } from "./support/views";

/** The jobs are the same for all tests of this file. */
let jobs: WaitingJob;
const shared = new TestObjects();
const VIEWS = listViews(() => jobs);

test.beforeAll(async () => {
  jobs = await createWaitingJob(shared);
});

test.afterAll(() => shared.removeAll());

const TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];

/** Returns the violations that axe finds, one line each. */
async function findViolations(page: Page): Promise<readonly string[]> {
  const { violations } = await new AxeBuilder({ page }).withTags(TAGS).analyze();
  return violations.flatMap(({ id, help, nodes }) => nodes.map((node) => `${id}: ${help}: ${node.target.join(" ")}: ${node.html.slice(0, 160)}`));
}

for (const [look, options] of [
  ["light", { colorScheme: "light" }],
  ["dark", { colorScheme: "dark" }],
  ["forced colours", { colorScheme: "dark", forcedColors: "active" }],
  ["360 px", { colorScheme: "light", viewport: { width: 360, height: 740 }, hasTouch: true, isMobile: true }],
] as const) {
  test(`axe finds no violation on any page: ${look}`, async ({ dashboard }) => {
    const opened = await dashboard({ context: options });
    for (const view of VIEWS) {
      await test.step(view.name, async () => {
        await openView(opened, view);
        expect.soft(await findViolations(opened.page), view.name).toEqual([]);
      });
    }
  });
}

test("axe finds no violation in the palette, the help and the hits of the search", async ({ dashboard }) => {
  const { page } = await dashboard({ path: "/queue" });
  await expect(jobRow(page, TEAM_A, jobs.waiting)).toBeVisible();
  await page.keyboard.press("Control+k");
  await page.getByRole("combobox", { name: /^Go to/ }).fill("a");
  expect.soft(await findViolations(page), "palette").toEqual([]);
  await page.keyboard.press("Escape");
  await page.keyboard.press("?");
  await expect(page.getByRole("dialog", { name: "Keyboard" })).toBeVisible();
  expect.soft(await findViolations(page), "help").toEqual([]);
  await page.keyboard.press("Escape");
  await page.keyboard.press("/");
  await page.keyboard.type("gpu");
  await expect(page.getByRole("option").first()).toBeVisible();
  expect.soft(await findViolations(page), "search").toEqual([]);
});

test("a screen reader hears the change of the page", async ({ dashboard }) => {
  const { page } = await dashboard({ path: "/queue" });
  await expect(jobRow(page, TEAM_A, jobs.waiting)).toBeVisible();
  for (const [link, heading] of [["Queues", "Queues"], ["Nodes", "Nodes"], ["Home", "Home"]] as const) {
    await page.getByRole("navigation", { name: "Areas" }).getByRole("link", { name: link }).click();
    await expect(page.getByRole("heading", { level: 1, name: heading })).toBeFocused();
    await expect(page).toHaveTitle(new RegExp(`^${heading} `));
  }
});

test("nothing moves for a user who wants no motion", async ({ dashboard }) => {
  const opened = await dashboard({ context: { reducedMotion: "reduce" } });
  const { page } = opened;
  for (const view of VIEWS) {
    await openView(opened, view);
    const moving = await page.evaluate(() =>
      document.getAnimations().filter((animation) => {
        const { duration = 0, iterations = 1 } = animation.effect?.getComputedTiming() ?? {};
        return Number(duration) * Number(iterations) > 50;
      }).length,
    );
    expect.soft(moving, view.name).toBe(0);
    const timed = await page.evaluate(() =>
      [...document.querySelectorAll("*")].filter((element) => {
        const { transitionDuration, animationName, scrollBehavior } = getComputedStyle(element);
        return transitionDuration.split(",").some((time) => Number.parseFloat(time) > 0.05) || animationName !== "none" || scrollBehavior === "smooth";
      }).map((element) => element.outerHTML.slice(0, 80)),
    );
    expect.soft(timed, view.name).toEqual([]);
  }
});

test("in forced colours, states and bars can still be told apart", async ({ dashboard }) => {
  const { page } = await dashboard({ context: { forcedColors: "active", colorScheme: "dark" }, path: `/jobs/${TEAM_A}/${jobs.waiting}` });
  await expect(verdict(page)).toContainText("Queued");
  const bar = page.getByRole("img", { name: /can have/ });
  await expect(bar).toBeVisible();
  const segments = await bar.locator("> div").evaluateAll((parts) =>
    parts.map((part) => {
      const { backgroundColor, backgroundImage, borderTopStyle } = getComputedStyle(part);
      return `${backgroundColor} ${backgroundImage} ${borderTopStyle}`;
    }),
  );
  expect(new Set(segments).size, segments.join(" | ")).toBe(segments.length);
});

test("the theme that a user has chosen stays after a reload", async ({ dashboard }) => {
  const { page } = await dashboard({ context: { colorScheme: "light" } });
  const theme = (): Promise<string | null> => page.evaluate(() => document.documentElement.getAttribute("data-theme"));
  expect(await theme()).toBe("light");
  const button = page.getByRole("button", { name: /^Theme:/ });
  await button.click();
  await button.click();
  await expect(button).toHaveAccessibleName("Theme: dark");
  expect(await theme()).toBe("dark");
  await page.reload();
  await expect(button).toHaveAccessibleName("Theme: dark");
  expect(await theme()).toBe("dark");
});
