/** Places of the page, found as a reader of the page finds them. */

import { type Locator, type Page, expect } from "@playwright/test";

/** Returns the row of a job in the table of jobs. */
export function jobRow(page: Page, namespace: string, name: string): Locator {
  return rowWith(page, "Jobs", `${namespace}/${name}`);
}

/** Returns the row of a node in the table of nodes. */
export function nodeRow(page: Page, name: string): Locator {
  return rowWith(page, "Nodes", name);
}

function rowWith(page: Page, table: string, link: string): Locator {
  const rows = page.getByRole("table", { name: table, exact: true }).getByRole("row");
  return rows.filter({ has: page.getByRole("link", { name: link, exact: true }) });
}

/** Returns the age of the data, at the top of each page. */
export function freshness(page: Page): Locator {
  return page.locator(".freshness");
}

/** Waits until the page has data. A cluster may have no jobs. */
export async function expectData(page: Page): Promise<void> {
  await expect(freshness(page)).toHaveText(/^\d+s ago$/);
}

/** Returns the section of the page of a job that says how the job is. */
export function verdict(page: Page): Locator {
  return page.getByRole("region", { name: "State", exact: true });
}

/** Returns a card of the page by its heading. */
export function card(page: Page, heading: string): Locator {
  return page.getByRole("region", { name: heading, exact: true });
}

/** Returns the texts of the cells of a row. */
export async function cellTexts(row: Locator): Promise<readonly string[]> {
  const texts = await row.getByRole("cell").allInnerTexts();
  return texts.map(inOneLine);
}

/** Returns the terms of a list of facts with their values. */
export async function readFacts(place: Locator): Promise<ReadonlyMap<string, string>> {
  const pairs = await place.locator("dl > div").evaluateAll((rows) =>
    rows.map((row) => [row.querySelector("dt")?.textContent ?? "", row.querySelector("dd")?.textContent ?? ""] as const),
  );
  return new Map(pairs.map(([term, value]) => [inOneLine(term), inOneLine(value)]));
}

/** Returns a text with single spaces, as a reader sees it. */
export function inOneLine(text: string): string {
  return text.replace(/\s+/g, " ").trim();
}

/** Goes to another path of the page, as a link of the page does: without a reload. */
export async function goTo(page: Page, path: string): Promise<void> {
  await page.evaluate((target) => {
    const link = document.createElement("a");
    link.href = target;
    document.body.append(link);
    link.click();
    link.remove();
  }, path);
}

/** Marks the document. A reload would lose the mark. */
export async function markDocument(page: Page): Promise<() => Promise<boolean>> {
  await page.evaluate(() => document.documentElement.setAttribute("data-test-mark", ""));
  return () => page.evaluate(() => document.documentElement.hasAttribute("data-test-mark"));
}
