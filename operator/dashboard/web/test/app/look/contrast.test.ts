import { readFileSync } from "node:fs";

import { expect, test } from "vitest";

/** WCAG 2.2: 4.5 to 1 for text, 3 to 1 for graphics and edges of controls. */
const TEXT = 4.5;
const GRAPHICS = 3;

const css = readFileSync(new URL("../../../src/style/tokens.css", import.meta.url), "utf8");

function readTokens(selector: string): Map<string, string> {
  const body = css.slice(css.indexOf(`${selector} {`)).split("}")[0] ?? "";
  return new Map([...body.matchAll(/--([\w-]+): (#[0-9a-f]{6});/g)].map(([, name = "", value = ""]) => [name, value]));
}

function luminance(colour: string): number {
  const parts = [1, 3, 5].map((start) => Number.parseInt(colour.slice(start, start + 2), 16) / 255);
  const [r = 0, g = 0, b = 0] = parts.map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

function contrast(a: string, b: string): number {
  const [light = 0, dark = 0] = [luminance(a), luminance(b)].sort((x, y) => y - x);
  return (light + 0.05) / (dark + 0.05);
}

const TONES = ["good", "waiting", "starting", "bad", "still"];
const SURFACES = ["bg", "surface", "sunken", "hover", "selected"];

test.each([":root", ':root[data-theme="dark"]'])("colours of %s can be read", (selector) => {
  const tokens = readTokens(selector);
  const check = (colour: string, ground: string, least: number): void => {
    const [a, b] = [tokens.get(colour), tokens.get(ground)];
    expect(a && b, `${colour} on ${ground}`).toBeTruthy();
    expect(contrast(a ?? "", b ?? ""), `${colour} on ${ground}`).toBeGreaterThanOrEqual(least);
  };
  for (const surface of SURFACES) {
    for (const text of ["text", "text-dim", "link", "bad"]) check(text, surface, TEXT);
    for (const edge of ["focus", "accent"]) check(edge, surface, GRAPHICS);
  }
  for (const surface of ["bg", "surface", "sunken"]) {
    check("line-strong", surface, GRAPHICS);
    for (const fill of ["used-fill", "borrowed-fill", "lend-fill", ...TONES.map((tone) => `${tone}-fill`)]) {
      check(fill, surface, GRAPHICS);
    }
  }
  for (const tone of TONES) {
    check(tone, `${tone}-faint`, TEXT);
    check(tone, "surface", TEXT);
  }
  check("on-accent", "accent", TEXT);
});
