/** Prints how fast the page is with 10,000 jobs and 5,000 nodes. No time fails a test: machines differ. */

import { request as httpRequest } from "node:http";

import type { CDPSession, Page } from "@playwright/test";

import { MadeUpServer } from "./support/made-up-server";
import { expect, test } from "./support/test";

const SIZE = { jobs: 10_000, nodes: 5_000 };
const SCREEN = { width: 1600, height: 900 };

/** A measured value beside the bar of the design (shared/design/16-dashboard.md, 6.4). */
interface Row {
  readonly what: string;
  readonly measured: string;
  readonly bar: string;
}

const rows: Row[] = [];

function note(what: string, measured: string, bar = ""): void {
  rows.push({ what, measured, bar });
}

const ms = (value: number): string => `${value.toFixed(value < 10 ? 1 : 0)} ms`;
const kib = (bytes: number): string => `${(bytes / 1024).toFixed(bytes < 10_240 ? 1 : 0)} KiB`;

const speed = test.extend<{ readonly madeUp: MadeUpServer; readonly tab: Page }>({
  madeUp: async ({ serve }, use) => {
    const server = await MadeUpServer.start(await serve("admin"), SIZE);
    await use(server);
    await server.end();
  },
  tab: async ({ browser }, use) => {
    const context = await browser.newContext({ viewport: SCREEN });
    const page = await context.newPage();
    page.on("pageerror", (error) => {
      throw error;
    });
    await use(page);
    await context.close();
  },
});

test.afterAll(() => {
  if (rows.length === 0) return;
  const width = Math.max(...rows.map(({ what }) => what.length));
  const lines = rows.map(({ what, measured, bar }) => `${what.padEnd(width)}  ${measured.padStart(14)}  ${bar.padStart(14)}`);
  const title = `${SIZE.jobs} jobs, ${SIZE.nodes} nodes of 8 devices`;
  console.log(["", title.padEnd(width) + "        measured             bar", ...lines, ""].join("\n"));
});

/** Notes the time at which an element is first on the page. */
async function watchFor(page: Page, selectors: Readonly<Record<string, string>>): Promise<void> {
  await page.addInitScript((all) => {
    const seen: Record<string, number> = {};
    Object.assign(globalThis, { seen });
    const look = (): void => {
      for (const [name, selector] of Object.entries(all)) {
        if (seen[name] === undefined && document.querySelector(selector)) seen[name] = performance.now();
      }
      requestAnimationFrame(look);
    };
    requestAnimationFrame(look);
  }, selectors);
}

async function seenAt(page: Page, name: string): Promise<number> {
  const handle = await page.waitForFunction((own) => (globalThis as unknown as { readonly seen: Record<string, number> }).seen[own], name, { timeout: 60_000 });
  return (await handle.jsonValue()) ?? Number.NaN;
}

speed("first paint and first rows @speed", async ({ madeUp, tab }) => {
  await watchFor(tab, { shell: "header nav", rows: "main [data-row]", own: ".job-lines-title" });
  for (const [path, first, name, bar] of [
    ["/queue", "rows", "10,000 rows of the list", "1200 ms"],
    ["/", "own", "first rows of mine", "500 ms"],
  ] as const) {
    await tab.goto(`${madeUp.origin}${path}#code=made-up`);
    note(`${path}: shell`, ms(await seenAt(tab, "shell")), "100 ms");
    const paint = await tab.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? Number.NaN);
    note(`${path}: first contentful paint`, ms(paint), "100 ms");
    note(`${path}: ${name}`, ms(await seenAt(tab, first)), bar);
  }
  note("script and style, gzip, with the late pages", kib(madeUp.sent.files), "60 KiB");
  note("lists, gzip", kib(madeUp.sent.lists));
});

/** Runs an action, and returns the times between frames. */
async function framesOf(page: Page, act: () => Promise<void>): Promise<readonly number[]> {
  await page.evaluate(() => {
    const times: number[] = [];
    Object.assign(globalThis, { frameTimes: times });
    const step = (time: number): void => {
      times.push(time);
      requestAnimationFrame(step);
    };
    requestAnimationFrame(step);
  });
  await act();
  const times = await page.evaluate(() => (globalThis as unknown as { readonly frameTimes: number[] }).frameTimes.splice(0));
  return times.slice(1).map((time, place) => time - (times[place] ?? time));
}

function noteFrames(what: string, frames: readonly number[]): void {
  const sorted = frames.toSorted((a, b) => a - b);
  const at = (part: number): number => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? Number.NaN;
  note(`${what}: frames, p50 / p95 / max`, [at(0.5), at(0.95), at(1)].map((time) => time.toFixed(0)).join(" / ") + " ms", "p95 33 ms");
}

speed("frames of pan and zoom @speed", async ({ madeUp, tab }) => {
  await tab.goto(`${madeUp.origin}/nodes#code=made-up`);
  const map = tab.getByRole("application", { name: "Cluster map" });
  await expect(map).toBeVisible();
  await tab.waitForTimeout(1_500);
  const box = await map.boundingBox();
  if (!box) throw new Error("the map has no place");
  const middle = { x: box.x + box.width / 2, y: box.y + box.height / 2 };
  const wheel = async (delta: number, steps: number): Promise<void> => {
    await tab.mouse.move(middle.x, middle.y);
    for (let step = 0; step < steps; step += 1) await tab.mouse.wheel(0, delta);
    await tab.waitForTimeout(300);
  };
  const pan = async (): Promise<void> => {
    await tab.mouse.move(middle.x, middle.y);
    await tab.mouse.down();
    for (let step = 0; step < 60; step += 1) await tab.mouse.move(middle.x - step * 6, middle.y - step * 3);
    await tab.mouse.up();
  };
  noteFrames("nothing, for comparison", await framesOf(tab, () => tab.waitForTimeout(2_000)));
  noteFrames("map: zoom in", await framesOf(tab, () => wheel(-60, 60)));
  noteFrames("map: pan over cells", await framesOf(tab, pan));
  noteFrames("map: zoom out", await framesOf(tab, () => wheel(60, 90)));
  noteFrames("map: pan, whole", await framesOf(tab, pan));
  await tab.goto(`${madeUp.origin}/queue`);
  await expect(tab.locator("main [data-row]").first()).toBeVisible();
  noteFrames("list: scroll", await framesOf(tab, () => wheel(400, 60)));
});

speed("search over all jobs @speed", async ({ madeUp, tab }) => {
  await tab.goto(`${madeUp.origin}/queue#code=made-up`);
  await expect(tab.locator("main [data-row]").first()).toBeVisible();
  for (const [what, selector] of [
    ["search of the head", "#search"],
    ["filter of the list", "main input[type=search]"],
  ] as const) {
    const times: number[] = [];
    for (const text of ["d", "di", "dif", "diff", "diffu", "diffus", "diffusi", "diffusio"]) {
      times.push(
        await tab.evaluate(
          async ({ place, value }) => {
            const input = document.querySelector<HTMLInputElement>(place);
            if (!input) throw new Error(`no ${place}`);
            input.focus();
            const start = performance.now();
            input.value = value;
            input.dispatchEvent(new Event("input", { bubbles: true }));
            await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
            return performance.now() - start;
          },
          { place: selector, value: text },
        ),
      );
    }
    note(`${what}, by key, until it is drawn`, ms(times.reduce((sum, time) => sum + time, 0) / times.length), "30 ms");
  }
});

async function heapOf(session: CDPSession): Promise<number> {
  await session.send("HeapProfiler.collectGarbage");
  const { metrics } = await session.send("Performance.getMetrics");
  return metrics.find(({ name }) => name === "JSHeapUsedSize")?.value ?? Number.NaN;
}

speed("heap and stream with 20 changes a second for two minutes @speed", async ({ madeUp, tab }) => {
  await tab.goto(`${madeUp.origin}/queue#code=made-up`);
  await expect(tab.locator("main [data-row]").first()).toBeVisible();
  const session = await tab.context().newCDPSession(tab);
  await session.send("Performance.enable");
  await session.send("HeapProfiler.enable");
  const before = await heapOf(session);
  const idle = madeUp.sent.stream;
  await tab.waitForTimeout(20_000);
  note("stream, idle, bytes a minute", kib((madeUp.sent.stream - idle) * 3), "5 KiB");
  madeUp.changesPerSecond = 20;
  const busy = madeUp.sent.stream;
  const frames = await framesOf(tab, () => tab.waitForTimeout(120_000));
  noteFrames("20 changes a second", frames);
  note("stream, 20 changes a second, bytes a minute", kib((madeUp.sent.stream - busy) / 2), "300 KiB");
  const after = await heapOf(session);
  note("heap with the lists", kib(before), "61440 KiB");
  note("heap after 2 minutes of changes", kib(after), "61440 KiB");
  note("growth of the heap", kib(after - before), "5120 KiB");
});

speed("bytes of the stream of the real server, idle @speed", async ({ serve }) => {
  const server = await serve("admin");
  const key = await server.open();
  const { version } = JSON.parse((await server.get("/api/queue")).text) as { readonly version: string };
  const { version: nodes } = JSON.parse((await server.get("/api/nodes")).text) as { readonly version: string };
  const bytes = await new Promise<number>((resolve, reject) => {
    const headers = { "Trellis-Key": key, "Accept-Encoding": "gzip" };
    const request = httpRequest(`${server.origin}/api/stream?queue=${version}&nodes=${nodes}`, { headers }, (response) => {
      let all = 0;
      response.on("data", (part: Buffer) => (all += part.length));
      response.on("error", () => undefined);
      setTimeout(() => {
        request.destroy();
        resolve(all);
      }, 60_000);
    });
    request.on("error", reject);
    request.end();
  });
  note("stream of the real server, bytes a minute", kib(bytes), "5 KiB");
});
