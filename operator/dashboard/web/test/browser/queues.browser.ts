/** Pages of queues: their numbers are those of `trellis queue`. */

import type { Locator, Page } from "@playwright/test";

import { type KubernetesObject, TEAM_A, type TestObjects, trainingJob, trellisJson, uniqueName, waitForPhase } from "./support/cluster";
import { expect, test } from "./support/test";
import { card, cellTexts, inOneLine, jobRow, markDocument, readFacts } from "./support/views";

interface QueueRow {
  readonly metadata: { readonly name: string };
  readonly parent?: string;
  readonly weight: string;
  readonly pending: number;
  readonly admitted: number;
  readonly share?: string;
  readonly resources?: readonly {
    readonly resource: string;
    readonly nominalQuota: string;
    readonly used: string;
    readonly borrowed: string;
    readonly lendable: string;
    readonly available?: string;
  }[];
  readonly pendingResources?: readonly { readonly resource: string; readonly amount: string }[];
}

/** A queue of 4 GPUs below a parent. */
function quotaQueue(name: string, parent: string | undefined, gpus: number): KubernetesObject {
  const amounts = { cpu: gpus === 0 ? 0 : 100, memory: gpus === 0 ? 0 : "1Ti", "nvidia.com/gpu": gpus };
  return {
    apiVersion: "trellis.dev/v1alpha1",
    kind: "TrainingQueue",
    metadata: { name },
    spec: {
      ...(parent !== undefined && { parentName: parent, namespaceSelector: {} }),
      resourceGroups: [
        {
          coveredResources: Object.keys(amounts),
          flavors: [
            {
              name: "default",
              resources: Object.entries(amounts).map(([resource, nominalQuota]) => ({ name: resource, nominalQuota })),
            },
          ],
        },
      ],
    },
  };
}

/** Creates two queues below a parent. One borrows 2 of the other's GPUs, and has a job that waits. */
async function createQueues(objects: TestObjects) {
  const lab = uniqueName("lab");
  const [vision, speech] = [`${lab}-vision`, `${lab}-speech`];
  await objects.apply(quotaQueue(lab, undefined, 0), quotaQueue(vision, lab, 4), quotaQueue(speech, lab, 4));
  const [holder, waiting] = [uniqueName("holder"), uniqueName("waiting")];
  await objects.apply(trainingJob({ name: holder, pods: 6, queue: vision }));
  await waitForPhase(TEAM_A, holder, "Running");
  await objects.apply(trainingJob({ name: waiting, pods: 4, queue: vision }));
  await waitForPhase(TEAM_A, waiting, "Queued");
  return { lab, vision, speech, holder, waiting };
}

async function readQueue(name: string): Promise<QueueRow> {
  const { queues } = await trellisJson<{ readonly queues: readonly QueueRow[] }>("queue", "-A");
  const row = queues.find((queue) => queue.metadata.name === name);
  if (!row) throw new Error(`\`trellis queue\` has no queue ${name}`);
  return row;
}

/** The numbers of the GPU row of a queue, in the words of the page. */
function gpuNumbers(queue: QueueRow): string {
  const gpus = queue.resources?.find((row) => row.resource === "nvidia.com/gpu");
  if (!gpus) throw new Error(`queue ${queue.metadata.name} has no GPUs`);
  const waiting = queue.pendingResources?.find((row) => row.resource === "nvidia.com/gpu")?.amount ?? "0";
  return [
    gpus.nominalQuota === "0" ? `${gpus.used} used` : `${gpus.used} of ${gpus.nominalQuota}`,
    gpus.borrowed === "0" ? "" : `${gpus.borrowed} borrowed`,
    gpus.lendable === "0" ? "" : `${gpus.lendable} lendable`,
    gpus.available === undefined ? "no limit" : `${gpus.available} free by quota`,
    waiting === "0" ? "" : `${waiting} wait`,
  ]
    .filter(Boolean)
    .join(" ");
}

async function shownGpuNumbers(place: Locator): Promise<string> {
  const bar = place.locator(".quota").filter({ hasText: "nvidia.com/gpu" });
  const spans = await bar.locator(".quota-numbers > span").allTextContents();
  return inOneLine(spans.join(" "));
}

function treeRow(page: Page, name: string): Locator {
  return page.getByRole("listitem").filter({ has: page.getByRole("heading", { name, level: 2, exact: true }) });
}

test("the tree of queues has the numbers of `trellis queue`", async ({ dashboard, objects }) => {
  const { lab, vision, speech } = await createQueues(objects);
  const { page } = await dashboard({ path: "/queues" });
  await expect(async () => {
    for (const name of [lab, vision, speech]) {
      const queue = await readQueue(name);
      const row = treeRow(page, name);
      expect(await shownGpuNumbers(row)).toBe(gpuNumbers(queue));
      const facts = await row.locator(".queue-facts > span").allTextContents();
      expect(facts.map((fact) => Number(/^\d+/.exec(fact)?.[0]))).toEqual([queue.admitted, queue.pending, Number.NaN, Number.NaN]);
      expect(facts[2]).toBe(`share ${queue.share ?? "–"}`);
      expect(facts[3]).toBe(`weight ${queue.weight}`);
      if (queue.parent !== undefined) await expect(row).toContainText(`below queue ${queue.parent}`, { timeout: 100 });
    }
    // The figures are not all zero: one queue borrows, the other lends, and a job waits.
    expect(await shownGpuNumbers(treeRow(page, vision))).toMatch(/^6 of 4 2 borrowed .*4 wait$/);
  }).toPass({ timeout: 40_000 });
});

test("a queue in the tree opens to who holds it and who waits", async ({ dashboard, objects }) => {
  const { vision, holder, waiting } = await createQueues(objects);
  const { page } = await dashboard({ path: "/queues" });
  const row = treeRow(page, vision);
  await row.getByRole("button", { name: `Jobs of queue ${vision}` }).click();
  await expect(row.getByRole("link", { name: `${TEAM_A}/${holder}` })).toBeVisible();
  await expect(row.getByRole("link", { name: `${TEAM_A}/${waiting}` })).toBeVisible();
  expect(new URL(page.url()).searchParams.get("open")).toBe(vision);
});

test("the page of a queue has the numbers and the jobs of `trellis queue`", async ({ dashboard, objects }) => {
  const { vision, holder, waiting } = await createQueues(objects);
  const { page } = await dashboard({ path: `/queues/${vision}` });
  await expect(page.getByRole("heading", { level: 1 })).toHaveText(vision);
  await expect(async () => {
    const queue = await readQueue(vision);
    expect(await shownGpuNumbers(card(page, "Quota"))).toBe(gpuNumbers(queue));
    const facts = await readFacts(card(page, "Facts"));
    expect(facts.get("Placed")).toMatch(new RegExp(`^${queue.admitted} job`));
    expect(facts.get("Pending")).toMatch(new RegExp(`^${queue.pending} job`));
    expect(facts.get("Share")).toBe(queue.share);
    expect(facts.get("Weight")).toBe(queue.weight);
    expect(facts.get("Parent")).toBe(queue.parent);
    expect((await cellTexts(jobRow(page, TEAM_A, holder)))[7]).toBe("Running");
    expect((await cellTexts(jobRow(page, TEAM_A, waiting))).slice(0, 8)).toEqual([
      "1",
      `${TEAM_A}/${waiting}`,
      expect.any(String),
      vision,
      "0",
      "4",
      "4",
      "Queued",
    ]);
  }).toPass({ timeout: 40_000 });
});

test("a queue gives back what it has borrowed, and its page changes without a reload", async ({ dashboard, objects }) => {
  const { vision, holder } = await createQueues(objects);
  const { page } = await dashboard({ path: `/queues/${vision}` });
  const isSameDocument = await markDocument(page);
  const shown = (): Promise<string> => shownGpuNumbers(card(page, "Quota"));
  await expect.poll(shown).toMatch(/^6 of 4 2 borrowed /);
  await objects.remove("trainingjob", holder, TEAM_A);
  await expect.poll(shown, { timeout: 25_000 }).toMatch(/^4 of 4 (?!.*borrowed)(?!.*wait)/);
  expect(await isSameDocument()).toBe(true);
});

test("the page of a queue that does not exist says so", async ({ dashboard }) => {
  const { page } = await dashboard({ path: `/queues/${uniqueName("missing")}` });
  await expect(page.getByRole("main")).toContainText("No queue and no job has this name");
});
