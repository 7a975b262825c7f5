/** What the page shows when a part of the way from the scheduler to the page is gone. */

import { TEAM_A, kubectl, serviceAccountKubeconfig, trainingJob, uniqueName, waitForPhase } from "./support/cluster";
import { environment } from "./support/environment";
import { expect, test } from "./support/test";
import { cellTexts, expectData, freshness, goTo, inOneLine, jobRow, markDocument, verdict } from "./support/views";

/** The server reads the queue every 5 s, and waits 5 s for an answer. */
const NOTICED_MS = 30_000;

/** Skips a test that stops the operator, if the cluster is not of the harness. */
function needsActs(): void {
  test.skip(environment.acts === undefined, "TRELLIS_WITHOUT_ACTS is set");
  test.setTimeout(180_000);
}

test("fresh data have their age at the top of the page", async ({ dashboard }) => {
  const { page } = await dashboard({ path: "/queue" });
  await expect(freshness(page)).toHaveText(/^\d+s ago$/);
  const ages: number[] = [];
  for (let second = 0; second < 14; second += 1) {
    ages.push(Number.parseInt((await freshness(page).textContent()) ?? "", 10));
    await page.waitForTimeout(1_000);
  }
  expect(Math.max(...ages)).toBeGreaterThan(Math.min(...ages));
  expect(Math.max(...ages)).toBeLessThan(10);
});

test("without an operator the data stay with a warning, and are fresh again by themselves", async ({ dashboard, objects, operator }) => {
  needsActs();
  const name = uniqueName();
  await objects.apply(trainingJob({ name }));
  await waitForPhase(TEAM_A, name, "Running");
  const { page, faults } = await dashboard({ path: "/queue" });
  faults.allow(/status (of )?503/);
  await expect(jobRow(page, TEAM_A, name)).toBeVisible();
  const isSameDocument = await markDocument(page);
  await operator.stop();
  const main = page.getByRole("main");
  await expect(main).toContainText(/The scheduler has not answered since \d\d:\d\d:\d\d/, { timeout: NOTICED_MS });
  await expect(main).toContainText("Jobs that run go on");
  await expect(freshness(page)).toHaveText(/^as of \d\d:\d\d:\d\d$/);
  await expect(jobRow(page, TEAM_A, name)).toBeVisible();
  await operator.start();
  await expect(main).not.toContainText("has not answered", { timeout: 90_000 });
  await expect(freshness(page)).toHaveText(/^\d+s ago$/);
  const next = uniqueName();
  await objects.apply(trainingJob({ name: next }));
  await expect(jobRow(page, TEAM_A, next)).toBeVisible({ timeout: NOTICED_MS });
  expect(await isSameDocument()).toBe(true);
});

test("without an operator the page of a job shows what the cluster has stored", async ({ dashboard, objects, operator }) => {
  needsActs();
  const name = uniqueName();
  await objects.apply(trainingJob({ name, pods: 2 }));
  await waitForPhase(TEAM_A, name, "Running");
  const { page, faults } = await dashboard({ path: `/jobs/${TEAM_A}/${name}` });
  faults.allow(/status (of )?503/);
  await expect(verdict(page)).toContainText("Running");
  await operator.stop();
  await expect(page.getByRole("main")).toContainText("has not answered since", { timeout: NOTICED_MS });
  // A page that is opened now has nothing from before.
  await page.reload();
  await expect(verdict(page)).toContainText("Running", { timeout: NOTICED_MS });
  await expect(page.getByRole("main")).toContainText("2/2 ready");
  for (const path of ["/queue", "/", "/queues", "/nodes"]) {
    await goTo(page, path);
    await expect(page.getByRole("main"), path).toContainText("has not answered since", { timeout: NOTICED_MS });
  }
  await operator.start();
  await goTo(page, "/queue");
  await expect(jobRow(page, TEAM_A, name)).toBeVisible({ timeout: 90_000 });
});

test("when `trellis dashboard` ends, the data stay with a warning", async ({ dashboard, objects }) => {
  const name = uniqueName();
  await objects.apply(trainingJob({ name }));
  const { page, server, faults } = await dashboard({ path: "/queue" });
  await expect(jobRow(page, TEAM_A, name)).toBeVisible();
  faults.allow(/^request failed: GET .*\/api\/.*(ERR_CONNECTION_REFUSED|ERR_INCOMPLETE_CHUNKED_ENCODING|ERR_CONNECTION_RESET|ERR_EMPTY_RESPONSE)/);
  faults.allow(/^console: Failed to load resource: net::ERR_/);
  await server.end();
  const main = page.getByRole("main");
  await expect(main).toContainText(/The server of this page has not answered since \d\d:\d\d:\d\d/, { timeout: NOTICED_MS });
  await expect(main).toContainText("trellis dashboard");
  await expect(main).toContainText("asking again");
  await expect(freshness(page)).toHaveText(/^as of/);
  await expect(jobRow(page, TEAM_A, name)).toBeVisible();
  await page.getByRole("button", { name: "Ask now" }).click();
  await expect(main).toContainText("has not answered since");
});

test("a page that was not loaded before says so when `trellis dashboard` has ended", async ({ dashboard }) => {
  const { page, server, faults } = await dashboard({ path: "/queue" });
  await expectData(page);
  faults.allow(/^request failed: .*ERR_CONNECTION_REFUSED|ERR_INCOMPLETE_CHUNKED_ENCODING|ERR_CONNECTION_RESET/, /^console: Failed to load/);
  await server.end();
  await goTo(page, "/queues");
  await expect(page.getByRole("main")).toContainText("This page could not be loaded");
  await goTo(page, "/queue");
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("Jobs");
  await expect(freshness(page)).toHaveText(/^as of/);
});

for (const [direction, hours] of [
  ["fast", 5],
  ["slow", -5],
] as const) {
  test(`with a clock of the browser that is 5 hours ${direction}, ages follow the server`, async ({ dashboard, objects }) => {
    const name = uniqueName();
    await objects.apply(trainingJob({ name }));
    await waitForPhase(TEAM_A, name, "Running");
    const { page } = await dashboard({
      path: "/queue",
      prepare: async (own) => {
        await own.clock.install({ time: Date.now() + hours * 3_600_000 });
      },
    });
    const wrong = await page.evaluate(() => Date.now());
    expect(Math.abs(wrong - Date.now())).toBeGreaterThan(4 * 3_600_000);
    const row = jobRow(page, TEAM_A, name);
    await expect(row).toBeVisible();
    const since = (await cellTexts(row))[8] ?? "";
    expect(since).toMatch(/^(\d+s|[12]m\d*s?)$/);
    await expect(freshness(page)).toHaveText(/^\d+s ago$/);
    await expect(page.getByText(new RegExp(`The clock of this computer is (4h59m|5h) ${direction}`))).toBeVisible();
    await page.getByRole("button", { name: "Hide" }).click();
    await expect(page.getByRole("main")).not.toContainText("The clock of this computer");
    await goTo(page, `/jobs/${TEAM_A}/${name}`);
    await expect(verdict(page)).toContainText("Running");
    expect(inOneLine(await page.getByRole("main").innerText())).not.toMatch(/\b[345]h\d*m? ago|in [345]h/);
  });
}

test("a user whom the cluster does not know any more sees no data, and is told what to do", async ({ dashboard, objects }) => {
  const name = uniqueName();
  const account = uniqueName("account");
  await objects.apply(
    trainingJob({ name }),
    { apiVersion: "v1", kind: "ServiceAccount", metadata: { name: account, namespace: TEAM_A } },
    {
      apiVersion: "rbac.authorization.k8s.io/v1",
      kind: "RoleBinding",
      metadata: { name: account, namespace: TEAM_A },
      roleRef: { apiGroup: "rbac.authorization.k8s.io", kind: "ClusterRole", name: "view" },
      subjects: [{ kind: "ServiceAccount", name: account, namespace: TEAM_A }],
    },
  );
  const { page, faults } = await dashboard({ user: await serviceAccountKubeconfig(account), path: "/queue" });
  faults.allow(/status (of )?401/);
  await expect(jobRow(page, TEAM_A, name)).toBeVisible();
  await kubectl("delete", "serviceaccount", account, "-n", TEAM_A);
  // The API server trusts a token for some seconds after its last check.
  await expect(page.getByText(name)).toHaveCount(0, { timeout: 45_000 });
  await expect(page.getByRole("main")).toContainText("The cluster refuses your credential");
  await expect(freshness(page)).toHaveText("no data");
});

test("a hidden tab makes no requests, and catches up when it is shown", async ({ dashboard, objects }) => {
  test.setTimeout(150_000);
  const { page } = await dashboard({
    path: "/queue",
    prepare: async (own) => {
      await own.addInitScript(() => {
        Object.defineProperty(document, "hidden", { get: () => "testHidden" in globalThis });
      });
    },
  });
  await expect(freshness(page)).toContainText("ago");
  const setHidden = (hidden: boolean): Promise<void> =>
    page.evaluate((isHidden) => {
      if (isHidden) Object.assign(globalThis, { testHidden: true });
      else Reflect.deleteProperty(globalThis, "testHidden");
      document.dispatchEvent(new Event("visibilitychange"));
    }, hidden);
  const dropped = page.waitForEvent("requestfailed", { predicate: (request) => request.url().includes("/api/stream"), timeout: 45_000 });
  await setHidden(true);
  await dropped;
  const requests: string[] = [];
  page.on("request", (request) => requests.push(request.url()));
  const name = uniqueName();
  await objects.apply(trainingJob({ name }));
  await page.waitForTimeout(15_000);
  expect(requests).toEqual([]);
  await setHidden(false);
  await expect(jobRow(page, TEAM_A, name)).toBeVisible({ timeout: 12_000 });
  expect(requests.length).toBeGreaterThan(0);
});
