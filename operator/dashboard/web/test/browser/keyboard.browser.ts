/** The page for people who use no pointer: the order of Tab, shortcuts, and walks with the arrow keys. */

import type { Page } from "@playwright/test";

import { listViews } from "./support/all-views";
import { TEAM_A, TestObjects, type WaitingJob, createWaitingJob } from "./support/cluster";
import { expect, test } from "./support/test";
import { card, expectData, goTo, jobRow } from "./support/views";

/** The jobs are the same for all tests of this file. */
let jobs: WaitingJob;
const shared = new TestObjects();
const VIEWS = listViews(() => jobs);

test.beforeAll(async () => {
  jobs = await createWaitingJob(shared);
});

test.afterAll(() => shared.removeAll());

/** What the focus is on. */
interface Focus {
  readonly name: string;
  readonly isMarked: boolean;
  readonly isCovered: boolean;
}

/** Presses Tab until the focus leaves the page, and returns what it was on. */
async function tabThrough(page: Page): Promise<readonly Focus[]> {
  const found: Focus[] = [];
  for (let presses = 0; presses < 400; presses += 1) {
    await page.keyboard.press("Tab");
    const focus = await page.evaluate(describeFocus);
    if (!focus) return found;
    found.push(focus);
  }
  throw new Error("the focus never leaves the page");
}

/** Runs in the page. Returns undefined if the focus was there before, or is not in the page. */
function describeFocus(): Focus | undefined {
  const element = document.activeElement;
  if (!(element instanceof HTMLElement) || element === document.body || element.hasAttribute("data-tabbed")) return undefined;
  element.setAttribute("data-tabbed", "");
  // Some part must be in sight (WCAG 2.4.11). A link that breaks has a box for each line.
  const isSeen = [...element.getClientRects()].some((box) =>
    [0.1, 0.5, 0.9].some((across) =>
      [0.1, 0.3, 0.5, 0.7, 0.9].some((down) => {
        const top = document.elementFromPoint(box.left + box.width * across, box.top + box.height * down);
        return top !== null && element.contains(top);
      }),
    ),
  );
  // The mark may be on the frame of a field.
  const marked = [element, element.parentElement, element.parentElement?.parentElement].filter((own) => own instanceof HTMLElement);
  const look = (): string =>
    marked
      .map((own) => {
        const style = getComputedStyle(own);
        return [style.outlineStyle, style.outlineWidth, style.outlineColor, style.boxShadow, style.borderColor, style.backgroundColor].join();
      })
      .join(";");
  const withFocus = look();
  element.blur();
  const withoutFocus = look();
  element.focus();
  return {
    name: `${element.tagName.toLowerCase()} ${(element.getAttribute("aria-label") ?? element.textContent ?? "").trim().slice(0, 40)}`,
    isMarked: withFocus !== withoutFocus,
    isCovered: !isSeen,
  };
}

/** Returns the elements of the page that react to a click and that Tab has not reached. */
function notReached(page: Page): Promise<readonly string[]> {
  return page.evaluate(() => {
    const interactive = "a[href], button, input, select, textarea, summary, [role=application], [role=button], [contenteditable]";
    const all = [...document.querySelectorAll<HTMLElement>(interactive)];
    const missing = all.filter((element) => {
      if (element.hasAttribute("data-tabbed") || element.matches(":disabled") || !element.checkVisibility()) return false;
      // One of a group has the focus, and arrow keys lead to the others.
      return !(element.tabIndex === -1 && element.parentElement?.closest("[role=group], [role=listbox]"));
    });
    return missing.map((element) => element.outerHTML.slice(0, 120));
  });
}

for (const view of VIEWS) {
  test(`Tab reaches all of the page, marks its place, and hides nothing: ${view.name}`, async ({ dashboard }) => {
    const { page } = await dashboard({ path: view.path() });
    await view.ready(page);
    await page.waitForTimeout(300);
    const stops = await tabThrough(page);
    expect(stops.length).toBeGreaterThan(8);
    expect(stops[0]?.name).toBe("a Skip to the content");
    expect(await notReached(page)).toEqual([]);
    expect(stops.filter((stop) => !stop.isMarked).map(({ name }) => name), "without a visible mark").toEqual([]);
    expect(stops.filter((stop) => stop.isCovered).map(({ name }) => name), "covered by something else").toEqual([]);
  });
}

test("the skip link leads past the head of the page", async ({ dashboard }) => {
  const { page } = await dashboard({ path: "/queue" });
  await expect(jobRow(page, TEAM_A, jobs.waiting)).toBeVisible();
  await page.keyboard.press("Tab");
  const link = page.getByRole("link", { name: "Skip to the content" });
  await expect(link).toBeFocused();
  await expect(link).toBeInViewport();
  await page.keyboard.press("Enter");
  await page.keyboard.press("Tab");
  expect(await page.evaluate(() => document.querySelector("main")?.contains(document.activeElement))).toBe(true);
  expect(new URL(page.url()).pathname).toBe("/queue");
});

test("Ctrl-K opens a job by its name, and Escape gives the focus back", async ({ dashboard }) => {
  const { page } = await dashboard({ path: "/queues" });
  const button = page.getByRole("button", { name: "All resources" });
  await button.focus();
  await page.keyboard.press("Control+k");
  const field = page.getByRole("combobox", { name: /^Go to/ });
  await expect(field).toBeFocused();
  await page.keyboard.press("Escape");
  await expect(field).toHaveCount(0);
  await expect(button).toBeFocused();
  await page.keyboard.press("Control+k");
  await page.keyboard.type(jobs.waiting);
  const hit = page.getByRole("option", { name: new RegExp(jobs.waiting) });
  await expect(hit).toHaveAttribute("aria-selected", "true");
  await page.keyboard.press("Enter");
  await expect(page.getByRole("heading", { level: 1 })).toHaveText(jobs.waiting);
  await expect(page.getByRole("heading", { level: 1 })).toBeFocused();
  await expect(field).toHaveCount(0);
});

test("the arrow keys choose among the hits of the palette", async ({ dashboard }) => {
  const { page } = await dashboard({ path: "/queue" });
  // The first hits depend on the user.
  await expectData(page);
  await page.keyboard.press("Control+k");
  const chosen = page.getByRole("dialog").getByRole("option", { selected: true });
  const first = await chosen.textContent();
  await page.keyboard.press("ArrowDown");
  await expect(chosen).not.toHaveText(first ?? "");
  const field = page.getByRole("combobox", { name: /^Go to/ });
  expect(await field.getAttribute("aria-activedescendant")).toBe(await chosen.getAttribute("id"));
  await page.keyboard.press("ArrowUp");
  await expect(chosen).toHaveText(first ?? "");
});

test("/ moves to the search, which opens a job, and Escape leaves it", async ({ dashboard }) => {
  const { page } = await dashboard({ path: "/nodes?view=table" });
  await expect(page.getByRole("link", { name: "gpu-7" })).toBeVisible();
  const search = page.getByRole("combobox", { name: "Search jobs, queues and nodes" });
  await page.keyboard.press("/");
  await expect(search).toBeFocused();
  await page.keyboard.press("Escape");
  await expect(search).not.toBeFocused();
  await page.keyboard.press("/");
  await page.keyboard.type(jobs.holder);
  await page.keyboard.press("Enter");
  await expect(page.getByRole("heading", { level: 1 })).toHaveText(jobs.holder);
});

test("the search opens what has exactly the name that was typed", async ({ dashboard }) => {
  const { page } = await dashboard({ path: "/nodes?view=table" });
  const node = "gpu-0";
  await expect(page.getByRole("link", { name: node, exact: true })).toBeVisible();
  for (const name of [node, "default"]) {
    await page.keyboard.press("/");
    await page.keyboard.type(name);
    await page.keyboard.press("Enter");
    await expect(page.getByRole("heading", { level: 1 })).toHaveText(name);
  }
});

test("two keys go to each area, and keys that are typed are text", async ({ dashboard }) => {
  const { page } = await dashboard();
  await expect(card(page, "My jobs")).toBeVisible();
  for (const [key, path, heading] of [
    ["q", "/queue", "Jobs"],
    ["t", "/queue?view=timeline", "Timeline"],
    ["u", "/queues", "Queues"],
    ["n", "/nodes", "Nodes"],
    ["o", "/policies", "Policies"],
    ["w", "/what-if", "What if"],
    ["h", "/", "Home"],
  ] as const) {
    await page.keyboard.press("g");
    await page.keyboard.press(key);
    await expect(page.getByRole("heading", { level: 1, name: heading })).toHaveCount(1);
    const { pathname, search } = new URL(page.url());
    expect(pathname + search).toBe(path);
  }
  await page.keyboard.press("/");
  await page.keyboard.type("gqt?m");
  await expect(page.getByRole("combobox", { name: "Search jobs, queues and nodes" })).toHaveValue("gqt?m");
  expect(new URL(page.url()).pathname).toBe("/");
});

test("t changes between table and drawing", async ({ dashboard }) => {
  const { page } = await dashboard({ path: "/queue" });
  const table = page.getByRole("table", { name: "Jobs" });
  await expect(table).toBeVisible();
  await page.keyboard.press("t");
  await expect(page.getByRole("application", { name: "Timeline of jobs" })).toBeVisible();
  await page.keyboard.press("t");
  await expect(table).toBeVisible();
  await goTo(page, "/nodes");
  await expect(page.getByRole("application", { name: "Cluster map" })).toBeVisible();
  await page.keyboard.press("t");
  await expect(page.getByRole("table", { name: "Nodes" })).toBeVisible();
  await page.keyboard.press("t");
  await expect(page.getByRole("application", { name: "Cluster map" })).toBeVisible();
});

test("j and k walk over the rows, Enter opens one, and Escape goes back", async ({ dashboard }) => {
  const { page } = await dashboard({ path: "/queue" });
  await expect(jobRow(page, TEAM_A, jobs.waiting)).toBeVisible();
  const links = page.locator("main [data-row]");
  await page.keyboard.press("j");
  await expect(links.nth(0)).toBeFocused();
  await page.keyboard.press("j");
  await expect(links.nth(1)).toBeFocused();
  await page.keyboard.press("k");
  await expect(links.nth(0)).toBeFocused();
  const name = (await links.nth(0).textContent()) ?? "";
  await page.keyboard.press("Enter");
  await expect(page.getByRole("heading", { level: 1 })).toHaveText(name.split("/")[1] ?? "");
  await page.keyboard.press("Escape");
  await expect(page.getByRole("table", { name: "Jobs" })).toBeVisible();
  expect(new URL(page.url()).pathname).toBe("/queue");
});

test("the help lists the keys of the page, and Escape closes it", async ({ dashboard }) => {
  const { page } = await dashboard({ path: "/nodes" });
  await expect(page.getByRole("application", { name: "Cluster map" })).toBeVisible();
  await page.keyboard.press("?");
  const help = page.getByRole("dialog", { name: "Keyboard" });
  for (const key of ["Search", "Zoom in", "Map, or table of nodes", "Jobs", "Help"]) await expect(help.getByText(key, { exact: true })).toBeVisible();
  await page.keyboard.press("Escape");
  await expect(help).toHaveCount(0);
});

test("the gang is one stop of Tab, and the arrow keys walk over its ranks", async ({ dashboard }) => {
  const { page } = await dashboard({ path: `/jobs/${TEAM_A}/${jobs.waiting}` });
  const ranks = card(page, "Gang").getByRole("button", { name: /^Rank \d+,/ });
  await expect(ranks).toHaveCount(jobs.pods);
  await ranks.first().focus();
  await page.keyboard.press("ArrowRight");
  await expect(ranks.nth(1)).toBeFocused();
  await page.keyboard.press("End");
  await expect(ranks.last()).toBeFocused();
  await page.keyboard.press("Home");
  await page.keyboard.press("Enter");
  await expect(page.getByRole("region", { name: "Rank 0" })).toBeVisible();
  await page.keyboard.press("Tab");
  await expect(ranks.nth(1)).not.toBeFocused();
});
