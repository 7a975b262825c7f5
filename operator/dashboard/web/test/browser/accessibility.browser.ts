/** The page for people who do not see it, see little, use no pointer, or want no motion (WCAG 2.2 AA). */

import AxeBuilder from "@axe-core/playwright";
import type { Page } from "@playwright/test";

import { TEAM_A, TestObjects, type WaitingJob, createWaitingJob } from "./support/cluster";
import { type OpenDashboard, expect, test } from "./support/test";
import { findOverflow } from "./support/text-only";
import { card, expectData, goTo, jobRow, verdict } from "./support/views";

/** The jobs are the same for all tests of this file. */
let jobs: WaitingJob;
const shared = new TestObjects();

test.beforeAll(async () => {
  jobs = await createWaitingJob(shared);
});

test.afterAll(() => shared.removeAll());

/** All views by name, and how to know that their data are there. */
const VIEWS: readonly { readonly name: string; readonly path: () => string; readonly ready: (page: Page) => Promise<void> }[] = [
  { name: "home", path: () => "/", ready: (page) => expect(card(page, "My jobs")).toBeVisible() },
  { name: "jobs", path: () => "/queue", ready: (page) => expect(jobRow(page, TEAM_A, jobs.waiting)).toBeVisible() },
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
  { name: "waiting job", path: () => `/jobs/${TEAM_A}/${jobs.waiting}`, ready: (page) => expect(card(page, "What would help")).toBeVisible() },
  { name: "running job", path: () => `/jobs/${TEAM_A}/${jobs.holder}`, ready: (page) => expect(card(page, "Gang")).toBeVisible() },
  { name: "plan", path: () => "/plan", ready: (page) => expect(page.getByRole("button", { name: "Plan it" })).toBeVisible() },
  { name: "no page", path: () => "/none", ready: (page) => expect(page.getByRole("heading", { level: 1 })).toBeVisible() },
];

async function open({ page }: OpenDashboard, view: (typeof VIEWS)[number]): Promise<void> {
  await goTo(page, view.path());
  await view.ready(page);
  // Late parts, such as the canvas and its legend.
  await page.waitForTimeout(300);
}

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
        await open(opened, view);
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

test("a screen reader hears the change of the page", async ({ dashboard }) => {
  const { page } = await dashboard({ path: "/queue" });
  await expect(jobRow(page, TEAM_A, jobs.waiting)).toBeVisible();
  for (const [link, heading] of [["Queues", "Queues"], ["Nodes", "Nodes"], ["Home", "Home"]] as const) {
    await page.getByRole("navigation", { name: "Areas" }).getByRole("link", { name: link }).click();
    await expect(page.getByRole("heading", { level: 1, name: heading })).toBeFocused();
    await expect(page).toHaveTitle(new RegExp(`^${heading} `));
  }
});

for (const [size, options] of [
  ["360 px", { viewport: { width: 360, height: 740 } }],
  ["320 px, the reflow of WCAG 1.4.10", { viewport: { width: 320, height: 640 } }],
  ["a zoom of 200 % in a window of 1280 px", { viewport: { width: 640, height: 400 }, deviceScaleFactor: 2 }],
] as const) {
  test(`no page scrolls to the side: ${size}`, async ({ dashboard }) => {
    const opened = await dashboard({ context: options });
    for (const view of VIEWS) {
      await open(opened, view);
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

test("nothing moves for a user who wants no motion", async ({ dashboard }) => {
  const opened = await dashboard({ context: { reducedMotion: "reduce" } });
  const { page } = opened;
  for (const view of VIEWS) {
    await open(opened, view);
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
