/** `test` with the fixtures of this folder. */

import { type BrowserContext, type BrowserContextOptions, type Page, test as base } from "@playwright/test";

import { access, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

import { TestObjects } from "./cluster";
import { type UserName, environment } from "./environment";
import { FaultLog, watchContext } from "./faults";
import { DashboardServer, type Kubeconfig } from "./server";

export { expect } from "@playwright/test";

/** How a test opens the page. */
export interface DashboardOptions {
  readonly user?: UserName | Kubeconfig;
  /** The view that the link opens. */
  readonly path?: string;
  readonly context?: BrowserContextOptions;
  /** Called before the link is opened. */
  readonly prepare?: (page: Page, context: BrowserContext) => Promise<void>;
}

/** The page of a running `trellis dashboard`. */
export interface OpenDashboard {
  readonly page: Page;
  readonly context: BrowserContext;
  readonly server: DashboardServer;
  readonly faults: FaultLog;
}

/** Stops and starts the operator. */
export interface Operator {
  stop(): Promise<void>;
  start(): Promise<void>;
}

interface Fixtures {
  /** Starts `trellis dashboard` and opens its link in a new browser context. */
  readonly dashboard: (options?: DashboardOptions) => Promise<OpenDashboard>;
  /** Starts `trellis dashboard` without a browser. */
  readonly serve: (user: UserName | Kubeconfig, path?: string) => Promise<DashboardServer>;
  /** Objects that are deleted after the test. */
  readonly objects: TestObjects;
  readonly operator: Operator;
}

/** Size of the window, unless a test asks for another. */
const VIEWPORT = { width: 1280, height: 800 };

export const test = base.extend<Fixtures>({
  objects: async ({}, use) => {
    const objects = new TestObjects();
    await use(objects);
    await objects.removeAll();
  },

  serve: async ({}, use) => {
    const servers: DashboardServer[] = [];
    await use(async (user, path = "/") => {
      const server = await DashboardServer.start(user, path);
      servers.push(server);
      return server;
    });
    for (const server of servers) await server.end();
  },

  // `objects` is a dependency so that objects are deleted after the pages are closed.
  dashboard: async ({ browser, serve, objects: _ }, use) => {
    const opened: OpenDashboard[] = [];
    await use(async ({ user = "admin", path = "/", context: options, prepare } = {}) => {
      const server = await serve(user, path);
      const context = await browser.newContext({ viewport: VIEWPORT, locale: "en-GB", timezoneId: "UTC", ...options });
      const faults = new FaultLog();
      await watchContext(context, server.origin, faults);
      if (environment.assets !== undefined) await replaceAssets(context, environment.assets, server.origin);
      const page = await context.newPage();
      const dashboard = { page, context, server, faults };
      opened.push(dashboard);
      await prepare?.(page, context);
      await page.goto(server.link);
      return dashboard;
    });
    for (const { context } of opened) await context.close();
    const faults = opened.flatMap((own) => [...own.faults.unexpected(), ...own.server.stderr.map((text) => `stderr: ${text}`)]);
    if (faults.length > 0) throw new Error(`The page did what it must not do:\n${faults.join("\n")}`);
  },

  operator: async ({}, use) => {
    let isStopped = false;
    await use({
      stop: async () => {
        isStopped = true;
        await perform("stop-operator");
      },
      start: async () => {
        await perform("start-operator");
        isStopped = false;
      },
    });
    if (isStopped) await perform("start-operator");
  },
});

/** Serves the files of a folder in the place of those of the program, with the headers of the program. */
async function replaceAssets(context: BrowserContext, folder: string, origin: string): Promise<void> {
  await context.route(/\/(app|pages)\.(js|css)$/, async (route) => {
    // A page of another origin gets what the program gives it: nothing.
    if (new URL(route.request().frame().url()).origin !== origin) return route.continue();
    const response = await route.fetch().catch(() => undefined);
    if (response === undefined) return route.abort("connectionrefused");
    const { "content-encoding": _, "content-length": __, ...headers } = response.headers();
    const name = new URL(route.request().url()).pathname;
    return route.fulfill({ response, headers, path: join(folder, name) });
  });
}

/** Longest time that the harness takes to stop or start the operator. */
const ACT_MS = 60_000;

async function perform(act: "stop-operator" | "start-operator"): Promise<void> {
  const folder = environment.acts;
  if (folder === undefined) throw new Error(`${act} needs TRELLIS_ACTS, but TRELLIS_WITHOUT_ACTS is set`);
  const done = join(folder, `${act}.done`);
  await rm(done, { force: true });
  await writeFile(join(folder, act), "");
  const end = performance.now() + ACT_MS;
  while (!(await exists(done))) {
    if (performance.now() > end) throw new Error(`the harness has not answered ${act} within ${ACT_MS / 1000} s: ${done} does not exist`);
    await sleep(100);
  }
  await rm(done, { force: true });
}

async function exists(path: string): Promise<boolean> {
  try {
    await access(path);
    return true;
  } catch {
    return false;
  }
}
