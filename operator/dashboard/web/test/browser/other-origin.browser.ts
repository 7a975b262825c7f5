/** A page of another origin, in the browser of a user who has the dashboard open, gets nothing of it. */

import { type Server, createServer } from "node:http";
import type { AddressInfo } from "node:net";

import type { Page, Response } from "@playwright/test";

import { expect, test } from "./support/test";
import { expectData } from "./support/views";

/** Serves an empty page on a port of its own: the same site, but another origin. */
async function startOtherSite(): Promise<{ readonly server: Server; readonly origin: string }> {
  const server = createServer((_, response) => {
    response.setHeader("Content-Type", "text/html");
    response.end("<!doctype html><title>other</title><body></body>");
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { server, origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
}

/** Runs attacks in a page of the other site while the dashboard is open in another tab. */
const attacked = test.extend<{ readonly attack: { readonly page: Page; readonly target: string; readonly answers: Response[]; readonly own: Page } }>({
  attack: async ({ dashboard }, use) => {
    const { page: own, context, server, faults } = await dashboard({ path: "/queue" });
    await expectData(own);
    // The other page makes requests that fail: that is what it is for.
    faults.allow(/./);
    const site = await startOtherSite();
    const page = await context.newPage();
    await page.goto(site.origin);
    const answers: Response[] = [];
    page.on("response", (response) => answers.push(response));
    await use({ page, target: server.origin, answers, own });
    // What the other page did has neither locked nor emptied the dashboard.
    await expectData(own);
    expect((await server.exchange("guess")).status).toBe(401);
    await own.reload();
    await expectData(own);
    await new Promise((resolve) => {
      site.server.close(resolve);
      site.server.closeAllConnections();
    });
  },
});

/** Answers with data of the cluster that the other page has caused. */
function leaks(answers: readonly Response[]): readonly string[] {
  const data = answers.filter((answer) => new URL(answer.url()).pathname.startsWith("/api/") && answer.status() < 400);
  return data.map((answer) => `${answer.status()} ${answer.url()}`);
}

attacked("fetch of another origin reads nothing", async ({ attack: { page, target, answers } }) => {
  const results = await page.evaluate(async (origin) => {
    const tries: Record<string, () => Promise<unknown>> = {};
    for (const path of ["/api/session", "/api/queue", "/api/nodes", "/api/stream?queue=1", "/", "/app.js", "/icon.svg"]) {
      for (const mode of ["cors", "no-cors"] as const) {
        for (const credentials of ["omit", "include"] as const) {
          tries[`${mode} ${credentials} ${path}`] = async () => (await fetch(origin + path, { mode, credentials })).text();
        }
      }
      tries[`key ${path}`] = async () => (await fetch(origin + path, { headers: { "Trellis-Key": "guess" } })).text();
    }
    tries["json"] = async () =>
      (await fetch(`${origin}/api/open`, { method: "POST", headers: { "Content-Type": "application/json" }, body: `{"code":"guess"}` })).text();
    tries["text"] = async () => (await fetch(`${origin}/api/open`, { method: "POST", mode: "no-cors", body: `{"code":"guess"}` })).text();
    tries["events"] = () => new Promise((resolve, reject) => {
      const source = new EventSource(`${origin}/api/stream?queue=1`);
      source.onmessage = resolve;
      source.onerror = reject;
    });
    tries["socket"] = () => new Promise((resolve, reject) => {
      const socket = new WebSocket(`${origin.replace("http", "ws")}/api/stream?queue=1`);
      socket.onopen = resolve;
      socket.onerror = reject;
    });
    const found: string[] = [];
    for (const [name, run] of Object.entries(tries)) {
      try {
        const got = await run();
        found.push(`${name}: ${String(got).slice(0, 80)}`);
      } catch {
        // Refused, as it must be.
      }
    }
    return found;
  }, target);
  expect(results).toEqual([]);
  expect(leaks(answers)).toEqual([]);
});

attacked("script, style, image and frame of another origin load nothing", async ({ attack: { page, target, answers } }) => {
  const loaded = await page.evaluate(async (origin) => {
    const load = (element: HTMLElement): Promise<boolean> =>
      new Promise((resolve) => {
        element.addEventListener("load", () => resolve(true));
        element.addEventListener("error", () => resolve(false));
        setTimeout(() => resolve(false), 3_000);
        document.body.append(element);
      });
    const create = <Tag extends keyof HTMLElementTagNameMap>(tag: Tag, fields: Partial<HTMLElementTagNameMap[Tag]>) =>
      Object.assign(document.createElement(tag), fields);
    const elements = {
      "script app.js": create("script", { src: `${origin}/app.js` }),
      "module app.js": create("script", { src: `${origin}/app.js`, type: "module" }),
      "script session": create("script", { src: `${origin}/api/session` }),
      "script queue": create("script", { src: `${origin}/api/queue` }),
      "style app.css": create("link", { href: `${origin}/app.css`, rel: "stylesheet" }),
      "image icon": create("img", { src: `${origin}/icon.svg` }),
      "image queue": create("img", { src: `${origin}/api/queue` }),
    };
    const found: string[] = [];
    for (const [name, element] of Object.entries(elements)) if (await load(element)) found.push(name);
    return found;
  }, target);
  expect(loaded).toEqual([]);

  await page.evaluate((origin) => {
    for (const path of ["/", "/queue", "/api/queue"]) {
      const frame = document.createElement("iframe");
      frame.src = origin + path;
      document.body.append(frame);
    }
  }, target);
  await expect.poll(() => page.frames().length).toBe(4);
  await page.waitForTimeout(1_000);
  const frames = page.frames().slice(1).map((frame) => frame.url());
  for (const address of frames) expect(address).toMatch(/^chrome-error:/);
  expect(leaks(answers)).toEqual([]);
});

attacked("a form of another origin gets no data and opens no link", async ({ attack: { page, target, answers } }) => {
  const home = page.url();
  for (const [method, enctype, path] of [
    ["post", "text/plain", "/api/open"],
    ["post", "application/x-www-form-urlencoded", "/api/open"],
    ["post", "multipart/form-data", "/api/open"],
    ["get", "application/x-www-form-urlencoded", "/api/queue"],
    ["get", "application/x-www-form-urlencoded", "/api/session"],
  ] as const) {
    await page.goto(home);
    const answered = page.waitForResponse((response) => response.url().startsWith(target + path));
    await page.evaluate(
      ({ action, ...fields }) => {
        const form = Object.assign(document.createElement("form"), fields, { action });
        // As text/plain, this is the JSON {"code":"guess","x":"="}.
        form.append(Object.assign(document.createElement("input"), { name: '{"code":"guess","x":"', value: '"}' }));
        document.body.append(form);
        form.submit();
      },
      { action: target + path, method, enctype },
    );
    expect((await answered).status(), `${method} ${enctype} ${path}`).toBe(403);
    await page.waitForURL(`${target}${path}**`);
  }
  expect(leaks(answers)).toEqual([]);
});

attacked("a beacon of another origin is refused", async ({ attack: { page, target } }) => {
  // The browser tells nobody the answer, so a refusal counts as a request that failed.
  const ended = Promise.race([page.waitForEvent("requestfailed"), page.waitForEvent("requestfinished")]);
  await page.evaluate((origin) => navigator.sendBeacon(`${origin}/api/open`, `{"code":"guess"}`), target);
  const request = await ended;
  expect(request.url()).toBe(`${target}/api/open`);
  const answer = await request.response();
  expect(answer === null || answer.status() === 403).toBe(true);
});

attacked("a window that another origin opens has no way back and no way in", async ({ attack: { page, target } }) => {
  const opening = page.context().waitForEvent("page");
  await page.evaluate((origin) => {
    Object.assign(globalThis, { opened: window.open(`${origin}/queue`) });
  }, target);
  const popup = await opening;
  await popup.waitForLoadState();
  expect(await popup.evaluate(() => window.opener === null)).toBe(true);
  // It may get the key from the other tab, but it stays a page of its own origin.
  await expect(popup.getByRole("main")).toBeVisible();
  const seen = await page.evaluate(() => {
    const { opened } = globalThis as unknown as { readonly opened: Window | null };
    try {
      return opened === null || opened.closed ? "closed" : String(opened.document.body.innerText);
    } catch (error) {
      return (error as Error).name;
    }
  });
  expect(["closed", "SecurityError"]).toContain(seen);
});
