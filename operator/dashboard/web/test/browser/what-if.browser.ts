/** The page What if: it shows what `trellis what-if` shows, and each change has its problem. */

import type { Locator, Page } from "@playwright/test";

import type { ForecastChange, ForecastStatus } from "../../src/wire/forecast";
import { type KubernetesObject, TEAM_A, createWaitingJob, trainingJob, trellisAs, uniqueName, waitForPhase } from "./support/cluster";
import { HOSTILE_TEXTS } from "./support/hostile";
import { expect, test } from "./support/test";
import { checkPageInBothSizes } from "./support/text-only";
import { card, goTo } from "./support/views";

const GPU = "nvidia.com/gpu";

const pathOf = (changes: readonly ForecastChange[]): string => `/what-if?changes=${encodeURIComponent(JSON.stringify(changes))}`;

function movedRow(page: Page, job: string): Locator {
  const rows = page.getByRole("table", { name: "Jobs that the changes move" }).getByRole("row");
  return rows.filter({ hasText: `${TEAM_A}/${job}` });
}

function forecast(page: Page): Locator {
  return page.getByRole("region", { name: "Forecast", exact: true });
}

/** A queue with a quota of GPUs. */
function quotaQueue(name: string, gpus: number): KubernetesObject {
  const amounts = { cpu: "100", memory: "1Ti", [GPU]: String(gpus) };
  const resources = Object.entries(amounts).map(([resource, nominalQuota]) => ({ name: resource, nominalQuota }));
  return {
    apiVersion: "trellis.dev/v1alpha1",
    kind: "TrainingQueue",
    metadata: { name },
    spec: {
      namespaceSelector: {},
      resourceGroups: [{ coveredResources: Object.keys(amounts), flavors: [{ name: "default", resources }] }],
    },
  };
}

/** Waits until the scheduler that forecasts knows a job. */
async function waitForForecast(job: string): Promise<void> {
  await expect(async () => {
    const { code, stderr } = await trellisAs("admin", "what-if", "--priority", `${TEAM_A}/${job}=0`);
    expect(code, stderr).toBe(0);
  }).toPass({ timeout: 20_000 });
}

test("more nodes let a waiting job start, as `trellis what-if` says", async ({ dashboard, objects }) => {
  const { waiting, pods } = await createWaitingJob(objects);
  await waitForForecast(waiting);
  const { page } = await dashboard({ path: "/what-if" });
  await expect(page.getByText("Add a change to see what it does to the jobs")).toBeVisible();
  await expect(page.getByRole("button", { name: "Forecast" })).toBeDisabled();
  await page.getByRole("button", { name: "Add nodes" }).click();
  await page.getByLabel("Like node").fill("gpu-0");
  await page.getByLabel("Number of nodes").fill("0");
  await page.getByRole("button", { name: "Add the change" }).click();
  await expect(page.getByText("must be at least 1")).toBeVisible();
  await page.getByLabel("Number of nodes").fill(String(pods));
  await page.getByRole("button", { name: "Add the change" }).click();
  await expect(page.getByRole("listitem").filter({ hasText: `Add ${pods} nodes like gpu-0` })).toBeVisible();
  await page.getByRole("button", { name: "Forecast" }).click();
  const row = movedRow(page, waiting);
  await expect(row).toContainText("earlier");
  await expect(row.getByRole("cell").nth(5)).toHaveText("now");
  await expect(forecast(page)).toContainText("starts earlier");
  const { stdout } = await trellisAs("admin", "what-if", "--add-nodes", `gpu-0=${pods}`, "-o", "json");
  const { status } = JSON.parse(stdout) as { readonly status: ForecastStatus };
  const job = status.jobs.find(({ name }) => name === waiting);
  expect(job?.effect).toBe("Earlier");
  await expect(page.locator(".command code")).toHaveText(new RegExp(`^trellis what-if --add-nodes gpu-0=${pods}( --context \\S+)?$`));

  // The URL has all of it.
  await page.reload();
  await expect(movedRow(page, waiting)).toContainText("earlier");
  await page.getByRole("button", { name: "Remove change 1" }).click();
  await expect(forecast(page)).toHaveCount(0);
  await page.goBack();
  await expect(movedRow(page, waiting)).toContainText("earlier");
});

test("more quota lets a waiting job start, and an answer to other changes is marked", async ({ dashboard, objects }) => {
  const queue = uniqueName("quota");
  await objects.apply(quotaQueue(queue, 1));
  const [holder, waiting] = [uniqueName("holder"), uniqueName("waiting")];
  await objects.apply(trainingJob({ name: holder, queue }));
  await waitForPhase(TEAM_A, holder, "Running");
  await objects.apply(trainingJob({ name: waiting, queue }));
  await waitForPhase(TEAM_A, waiting, "Queued");
  await waitForForecast(waiting);
  const { page } = await dashboard({ path: `/queues/${queue}` });
  await page.getByRole("link", { name: "What if this queue had another quota?" }).click();
  await page.getByLabel("Nominal quota").fill("2");
  await page.getByRole("button", { name: "Keep the change" }).click();
  await page.getByRole("button", { name: "Forecast" }).click();
  await expect(movedRow(page, waiting)).toContainText("earlier");
  await expect(forecast(page)).not.toContainText("The changes are others");
  await page.getByRole("button", { name: "Edit change 1" }).click();
  await page.getByLabel("Nominal quota").fill("1");
  await page.getByLabel("Nominal quota").press("Enter");
  await expect(forecast(page)).toContainText("The changes are others");
  await page.keyboard.press("Control+Enter");
  await expect(forecast(page)).toContainText("No job moves");
});

test("a job on a removed node has to stop", async ({ dashboard, objects }) => {
  const name = uniqueName("stops");
  await objects.apply(trainingJob({ name, gpus: 8 }));
  await waitForPhase(TEAM_A, name, "Running");
  await waitForForecast(name);
  const { page } = await dashboard({ path: `/jobs/${TEAM_A}/${name}` });
  await page.getByRole("main").getByRole("link", { name: /^gpu-\d+$/ }).first().click();
  await page.getByRole("link", { name: "what if it were removed" }).click();
  await expect(movedRow(page, name)).toContainText("stops");
  await expect(movedRow(page, name)).toContainText("loses its place");
  await expect(forecast(page)).toContainText("has to stop");
});

test("a change that cannot be made has its message beside it", async ({ dashboard }) => {
  const { page, faults } = await dashboard({ path: pathOf([{ addNodes: { like: "gpu-0", count: 1 } }, { removeNode: { name: "no-such-node" } }]) });
  faults.allow(/status (of )?400/);
  const rows = page.getByRole("list", { name: "List of changes" }).getByRole("listitem");
  await expect(rows.nth(1)).toContainText('no node is named "no-such-node"');
  await expect(rows.nth(0)).not.toContainText("no node is named");
  await expect(forecast(page)).toContainText("These changes cannot be made");
});

test("a URL without readable changes is a problem of the page", async ({ dashboard }) => {
  const { page } = await dashboard({ path: "/what-if?changes=%5B%7B" });
  await expect(page.getByText("The page ignores the URL: its changes are not JSON.")).toBeVisible();
  await expect(page.getByRole("button", { name: "Forecast" })).toBeDisabled();
});

test("a user without the right is told which right a forecast needs", async ({ dashboard }) => {
  const { page, faults } = await dashboard({ user: "viewer", path: pathOf([{ removeNode: { name: "gpu-0" } }]) });
  faults.allow(/status (of )?403/);
  const missing = card(page, "You may not ask for forecasts");
  await expect(missing).toContainText("create forecasts.visibility.trellis.dev");
  await expect(missing).toContainText("trellis-platform");
});

test("hostile text of changes is shown as text", async ({ dashboard }) => {
  const texts = HOSTILE_TEXTS.filter((text) => text.length < 60 && text.isWellFormed()).slice(0, 24);
  const { page, faults } = await dashboard({ path: "/what-if" });
  faults.allow(/status (of )?400/);
  await expect(card(page, "Changes")).toBeVisible();
  await goTo(page, "/queue");
  // The command line takes no path with some of these characters.
  await goTo(page, pathOf(texts.map((name) => ({ removeNode: { name } }))));
  await expect(forecast(page)).toContainText("These changes cannot be made");
  await checkPageInBothSizes(page);
});
