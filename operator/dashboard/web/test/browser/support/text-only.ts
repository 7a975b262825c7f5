/** Checks that text of the cluster has become nothing but text. */

import { type Page, expect } from "@playwright/test";

import { forbiddenIn } from "./hostile";

/** Returns what text has become other than text, and how it has broken the layout. */
export async function findProblems(page: Page): Promise<readonly string[]> {
  const found = await page.evaluate(() => {
    const isOwn = (address: string): boolean => new URL(address, location.href).origin === location.origin;
    const foreign = "main img, main iframe, main object, main embed, main form, main script, main style, main link, base, meta[http-equiv]";
    const elements = [...document.querySelectorAll("*")];
    const attributes = elements.flatMap((element) => [...element.attributes]);
    const links = [...document.querySelectorAll<HTMLAnchorElement>("a[href]")].filter((link) => !isOwn(link.href));
    return {
      problems: [
        ...[...document.querySelectorAll(foreign)].map((element) => `element ${element.outerHTML}`),
        ...attributes.filter(({ name }) => name.startsWith("on")).map(({ name, value }) => `handler ${name}=${value}`),
        ...links.map((link) => `link ${link.href}`),
        ...(document.scripts.length === 1 ? [] : ["another script"]),
        ...("polluted" in {} || Object.keys(Object.prototype).length > 0 ? ["Object.prototype has a new property"] : []),
      ],
      texts: {
        text: document.body.textContent,
        title: document.title,
        // Attributes that are shown or spoken.
        attributes: attributes.filter(({ name }) => /^(title|alt|placeholder|aria-)/.test(name)).map(({ value }) => value).join("\n"),
      },
    };
  });
  const forbidden = Object.entries(found.texts).flatMap(([place, text]) => {
    const character = forbiddenIn(text);
    return character === undefined ? [] : [`${place}: ${character}`];
  });
  return [...found.problems, ...forbidden, ...(await findLayoutProblems(page))];
}

/** The page must be as wide as the window. */
async function findLayoutProblems(page: Page): Promise<readonly string[]> {
  return (await findOverflow(page)).map((element) => `wider than the window: ${element}`);
}

/** Returns what makes the page scroll to the side. Empty: it does not. */
export function findOverflow(page: Page): Promise<readonly string[]> {
  return page.evaluate(() => {
    const width = document.documentElement.clientWidth;
    if (document.documentElement.scrollWidth <= width) return [];
    const isCut = (element: Element | null): boolean => {
      if (element === null || element === document.body) return false;
      return ["auto", "scroll", "hidden", "clip"].includes(getComputedStyle(element).overflowX) || isCut(element.parentElement);
    };
    const wide = [...document.querySelectorAll("body *")].filter(
      (element) => element.getBoundingClientRect().right > width && !isCut(element.parentElement),
    );
    // The innermost elements are the cause.
    const causes = wide.filter((element) => !wide.some((other) => other !== element && element.contains(other)));
    return causes.slice(0, 4).map((element) => {
      const { className } = element;
      const end = Math.round(element.getBoundingClientRect().right);
      return `${element.tagName.toLowerCase()}.${String(className)} ends at ${end}: ${(element.textContent ?? "").trim().slice(0, 60)}`;
    });
  });
}

/** Checks a page at its present size. */
export async function checkPage(page: Page): Promise<void> {
  expect(await findProblems(page), page.url()).toEqual([]);
}

/** Checks a page, and its layout on a phone. */
export async function checkPageInBothSizes(page: Page): Promise<void> {
  await checkPage(page);
  await page.setViewportSize({ width: 360, height: 740 });
  expect(await findLayoutProblems(page), page.url()).toEqual([]);
  await page.setViewportSize({ width: 1280, height: 800 });
}
