/** Colours of the canvases stand out from what they lie on: WCAG 2.2 AA, 3:1 for graphics. */

import { readFileSync } from "node:fs";

import { describe, expect, it } from "vitest";

import { GANG_COLOURS } from "../../../src/draw/base/gang";
import { buildTheme } from "../../../src/draw/base/theme";
import { TIME_STEPS } from "../../../src/draw/base/time-left";

const read = (name: string): string => readFileSync(new URL(`../../../src/style/${name}`, import.meta.url), "utf8");
const drawing = read("drawing.css");
const tokens = read("tokens.css");

/** Tokens of one theme as `style/*.css` define them; `var()` is followed. */
function themeTokens(isDark: boolean): (token: string) => string {
  const values = new Map<string, string>();
  const take = (text: string, selector: string): void => {
    for (const block of text.split("@media (")[0]?.split("}") ?? []) {
      const [head = "", body = ""] = block.split("{");
      if (head.split("*/").at(-1)?.trim() !== selector) continue;
      for (const match of body.matchAll(/(--[\w-]+):\s*([^;]+);/g)) values.set(match[1] ?? "", match[2] ?? "");
    }
  };
  const [light, dark] = [":root", ':root[data-theme="dark"]'];
  take(tokens, light);
  if (isDark) take(tokens, dark);
  take(drawing, ".drawing");
  if (isDark) take(drawing, `${dark} .drawing`);
  const resolve = (token: string): string => {
    const value = values.get(token) ?? "";
    const name = /^var\((--[\w-]+)\)$/.exec(value)?.[1];
    return name === undefined ? value : resolve(name);
  };
  return resolve;
}

function luminance(colour: string): number {
  const channel = (from: number): number => {
    const value = Number.parseInt(colour.slice(from, from + 2), 16) / 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  };
  return 0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5);
}

function contrast(a: string, b: string): number {
  const [high = 0, low = 0] = [luminance(a), luminance(b)].sort((x, y) => y - x);
  return (high + 0.05) / (low + 0.05);
}

for (const isDark of [false, true]) {
  describe(isDark ? "dark theme" : "light theme", () => {
    const theme = buildTheme(themeTokens(isDark), "");
    const fills = { other: theme.other, bad: theme.bad, kept: theme.kept, unknown: theme.unknown, running: theme.running, starting: theme.starting, stopping: theme.stopping, freeLine: theme.freeLine, partly: theme.partly, fits: theme.fits, focus: theme.focus, reserved: theme.reserved };

    it("every token has a colour", () => {
      for (const [name, colour] of Object.entries({ ...fills, ground: theme.ground, tile: theme.tile, line: theme.line, boxLine: theme.boxLine })) {
        expect([name, colour]).toEqual([name, expect.stringMatching(/^#[0-9a-f]{6}$/)]);
      }
    });

    it("fills and frames have 3:1 on a tile", () => {
      const all = { ...fills, ...Object.fromEntries(theme.gangs.map((colour, index) => [`gang ${index}`, colour])), ...Object.fromEntries(theme.times.map((colour, index) => [`time ${index}`, colour])) };
      expect(theme.gangs.length).toBe(GANG_COLOURS);
      expect(theme.times.length).toBe(TIME_STEPS.length);
      for (const [name, colour] of Object.entries(all)) expect([name, contrast(colour, theme.tile) >= 3]).toEqual([name, true]);
    });

    it("text has 4.5:1 on tiles, boxes and the ground", () => {
      for (const text of [theme.ink, theme.faint, theme.bad]) {
        for (const ground of [theme.tile, theme.ground]) expect(contrast(text, ground)).toBeGreaterThanOrEqual(4.5);
      }
      for (const box of theme.boxes) for (const text of [theme.ink, theme.faint]) expect(contrast(text, box)).toBeGreaterThanOrEqual(4.5);
    });

    it("no two colours of gangs are the same", () => {
      expect(new Set(theme.gangs).size).toBe(GANG_COLOURS);
    });
  });
}
