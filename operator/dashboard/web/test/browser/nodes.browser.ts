/** Pages of nodes: their numbers are those of `trellis nodes`. */

import type { Page } from "@playwright/test";

import { TEAM_A, type TestObjects, kubectl, trainingJob, trellisJson, uniqueName, waitForPhase } from "./support/cluster";
import { expect, test } from "./support/test";
import { card, cellTexts, inOneLine, nodeRow } from "./support/views";

interface NodeResource {
  readonly resource: string;
  readonly allocatable: string;
  readonly jobs: string;
  readonly others: string;
  readonly kept: string;
  readonly free?: string;
}

interface NodeRow {
  readonly metadata: { readonly name: string };
  readonly schedulable: boolean;
  readonly reasons?: readonly { readonly reason: string; readonly message: string }[];
  readonly resources?: readonly NodeResource[];
  readonly jobs?: readonly { readonly namespace: string; readonly name: string; readonly pods: number }[];
}

const GPU = "nvidia.com/gpu";

/** The server reads the nodes every 10 s. */
const SHOWN_MS = 20_000;

const readNodes = (): Promise<readonly NodeRow[]> => trellisJson<readonly NodeRow[]>("nodes");

function gpusOf(node: NodeRow): NodeResource | undefined {
  return node.resources?.find((row) => row.resource === GPU);
}

function sum(nodes: readonly NodeRow[], amount: (gpus: NodeResource) => string | undefined): number {
  return nodes.reduce((all, node) => {
    const gpus = gpusOf(node);
    return all + (gpus ? Number(amount(gpus) ?? 0) : 0);
  }, 0);
}

/** The sums of `trellis nodes -o json`, under the names of the page. */
function sumsOf(nodes: readonly NodeRow[]): Record<string, string> {
  const usable = nodes.filter((node) => node.schedulable).map((node) => Number(gpusOf(node)?.free ?? 0));
  const pods = [1, 2, 4, 8].map((size) => usable.reduce((all, free) => all + Math.floor(free / size), 0));
  return {
    All: String(sum(nodes, (gpus) => gpus.allocatable)),
    Jobs: String(sum(nodes, (gpus) => gpus.jobs)),
    Others: String(sum(nodes, (gpus) => gpus.others)),
    Kept: String(sum(nodes, (gpus) => gpus.kept)),
    Free: String(sum(nodes, (gpus) => gpus.free)),
    Usable: String(usable.reduce((all, free) => all + free, 0)),
    "Pods of 1/2/4/8": pods.join("/"),
  };
}

async function shownSums(page: Page): Promise<Record<string, string>> {
  const section = page.getByRole("complementary", { name: "Sums" }).locator("section").first();
  await expect(section.getByRole("heading", { name: GPU })).toBeVisible();
  const terms = await section.locator("dt").allTextContents();
  const values = await section.locator("dd").allTextContents();
  return Object.fromEntries(terms.map((term, place) => [inOneLine(term), inOneLine(values[place] ?? "")]));
}

/** Waits until the scheduler knows why a node takes no pods, and returns the reasons. */
async function reasonsOf(name: string): Promise<NonNullable<NodeRow["reasons"]>> {
  let reasons: NodeRow["reasons"] = [];
  await expect(async () => {
    reasons = (await readNodes()).find((node) => node.metadata.name === name)?.reasons ?? [];
    expect(reasons.length).toBeGreaterThan(0);
  }).toPass({ timeout: 20_000 });
  return reasons;
}

/** Starts a job that holds a part of one node, so that no number is zero. */
async function startJob(objects: TestObjects): Promise<{ readonly job: string; readonly node: NodeRow }> {
  const job = uniqueName("holder");
  await objects.apply(trainingJob({ name: job, pods: 1, gpus: 3 }));
  await waitForPhase(TEAM_A, job, "Running");
  let node: NodeRow | undefined;
  await expect(async () => {
    node = (await readNodes()).find((own) => own.jobs?.some((hold) => hold.name === job));
    expect(node, `no node has job ${job}`).toBeDefined();
  }).toPass({ timeout: 20_000 });
  if (!node) throw new Error(`no node has job ${job}`);
  return { job, node };
}

test("the map of nodes has the sums of `trellis nodes`", async ({ dashboard, objects }) => {
  await startJob(objects);
  const { page } = await dashboard({ path: "/nodes" });
  await expect(page.getByRole("application", { name: "Cluster map" })).toBeVisible();
  await expect(async () => {
    const sums = sumsOf(await readNodes());
    expect(Number(sums["Jobs"])).toBeGreaterThan(0);
    expect(await shownSums(page)).toEqual(sums);
  }).toPass({ timeout: 40_000 });
});

test("the table of nodes has the rows of `trellis nodes`", async ({ dashboard, objects }) => {
  const { job } = await startJob(objects);
  const { page } = await dashboard({ path: "/nodes?view=table" });
  await expect(async () => {
    const nodes = await readNodes();
    await expect(page.getByRole("row").filter({ has: page.getByRole("cell") })).toHaveCount(nodes.length, { timeout: 100 });
    for (const node of nodes) {
      const [name, , free, devices, ...more] = await cellTexts(nodeRow(page, node.metadata.name));
      const gpus = gpusOf(node);
      expect({ name, free, devices }).toEqual({
        name: node.metadata.name,
        free: gpus ? `${gpus.free ?? 0}/${gpus.allocatable}` : "-",
        devices: gpus ? GPU : "-",
      });
      const holds = node.jobs?.some((hold) => hold.name === job) ?? false;
      expect(more.at(-1)?.includes(`${TEAM_A}/${job}`)).toBe(holds);
    }
  }).toPass({ timeout: 40_000 });
});

test("the map describes the node under the keyboard with the numbers of `trellis nodes`", async ({ dashboard, objects }) => {
  await startJob(objects);
  const { page } = await dashboard({ path: "/nodes" });
  const map = page.getByRole("application", { name: "Cluster map" });
  await map.focus();
  const spoken = page.getByRole("status").filter({ hasText: /: (Idle|Mixed|Full)/ });
  await expect(async () => {
    await page.keyboard.press("ArrowRight");
    const text = (await spoken.first().textContent({ timeout: 500 })) ?? "";
    const described = /^(\S+): (\w+), (\d+) of (\d+) nvidia\.com\/gpu free/.exec(text);
    expect(described, text).not.toBeNull();
    const nodes = await readNodes();
    const node = nodes.find((own) => own.metadata.name === described?.[1]);
    const gpus = node && gpusOf(node);
    expect([described?.[3], described?.[4]]).toEqual([gpus?.free ?? "0", gpus?.allocatable]);
  }).toPass({ timeout: 30_000 });
});

test("a cordoned node is marked in the table, in the sums and on its page, until it is back", async ({ dashboard }) => {
  const name = "gpu-11";
  const { page } = await dashboard({ path: "/nodes?view=table" });
  await expect(nodeRow(page, name)).toBeVisible();
  try {
    await kubectl("cordon", name);
    const reasons = await reasonsOf(name);
    const row = nodeRow(page, name);
    await expect(row).toContainText(reasons.map(({ reason }) => reason).join(","), { timeout: SHOWN_MS });
    await expect(row).toContainText("cordoned");
    await expect(page.getByRole("main")).toContainText("1 takes no pods");
    await expect(async () => expect(await shownSums(page)).toEqual(sumsOf(await readNodes()))).toPass({ timeout: SHOWN_MS });
    await row.getByRole("link", { name, exact: true }).click();
    await expect(page.getByRole("heading", { level: 1 })).toHaveText(name);
    for (const { reason, message } of reasons) {
      await expect(page.getByText(`Takes no new pods: ${reason}`)).toBeVisible();
      await expect(page.getByText(message)).toBeVisible();
    }
  } finally {
    await kubectl("uncordon", name);
  }
  await expect(page.getByText("Takes no new pods")).toHaveCount(0, { timeout: SHOWN_MS });
});

test("home counts a bad node, and leads to the table of bad nodes, until it is well", async ({ dashboard }) => {
  const name = "gpu-11";
  const label = "dgxc.nvidia.com/nvsentinel-state";
  const { page } = await dashboard();
  const broken = page.getByRole("region", { name: "What broke" });
  try {
    await kubectl("label", "node", name, `${label}=quarantined`);
    await expect(broken).toContainText("1 node is bad (Unhealthy 1), with no job", { timeout: SHOWN_MS });
    await broken.getByRole("link", { name: "1 node is bad" }).click();
    await expect(nodeRow(page, name)).toContainText("Unhealthy");
    await expect(nodeRow(page, "gpu-0")).toHaveCount(0);
  } finally {
    await kubectl("label", "node", name, `${label}-`);
  }
  await expect(page.getByText("No node is bad.")).toBeVisible({ timeout: SHOWN_MS });
  await page.getByRole("button", { name: "Only bad nodes" }).click();
  await expect(nodeRow(page, "gpu-0")).toBeVisible();
});

test("the page of a node has its numbers and its jobs", async ({ dashboard, objects }) => {
  const { job } = await startJob(objects);
  const holder = async () => (await readNodes()).find((own) => own.jobs?.some((hold) => hold.name === job));
  // An answer of the scheduler is up to two seconds old.
  await expect.poll(holder, `no node has job ${job}`).toBeDefined();
  const node = await holder();
  if (!node) throw new Error(`no node has job ${job}`);
  const { page } = await dashboard({ path: `/nodes/${node.metadata.name}` });
  const gpus = gpusOf(node);
  await expect(card(page, "Resources").getByRole("row").filter({ hasText: GPU })).toContainText(
    [gpus?.allocatable, gpus?.jobs, gpus?.others, gpus?.kept, gpus?.free].join(""),
  );
  const held = card(page, "Who holds it").getByRole("row").filter({ hasText: job });
  await expect(held).toContainText("Running");
  await expect(held).toContainText(`3 ${GPU}`);
  await held.getByRole("link", { name: `${TEAM_A}/${job}` }).click();
  await expect(page.getByRole("heading", { level: 1 })).toHaveText(job);
});

test("a link to a node on the map chooses that node", async ({ dashboard }) => {
  const { page } = await dashboard({ path: "/nodes/gpu-3" });
  await page.getByRole("link", { name: "show on map" }).click();
  const map = page.getByRole("application", { name: "Cluster map" });
  await expect(map).toBeVisible();
  expect(new URL(page.url()).searchParams.get("at")).toBe("gpu-3");
  // The map is drawn, so that only the keyboard tells which node is chosen.
  await map.press("Enter");
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("gpu-3");
});

test("the page of a node that does not exist says so", async ({ dashboard }) => {
  const { page } = await dashboard({ path: `/nodes/${uniqueName("missing")}` });
  await expect(page.getByText("There is no such node")).toBeVisible();
});

test("the fit lens counts the nodes with room for the pods", async ({ dashboard }) => {
  const { page } = await dashboard({ path: "/nodes?view=table" });
  await page.getByRole("textbox", { name: "Would fit" }).fill("1x8");
  await expect(async () => {
    for (const node of await readNodes()) {
      const free = Number(gpusOf(node)?.free ?? 0);
      const fits = (await cellTexts(nodeRow(page, node.metadata.name))).at(-2) ?? "";
      expect(fits.startsWith("no:"), `${node.metadata.name}: ${fits}`).toBe(free < 8 || !node.schedulable);
    }
  }).toPass({ timeout: 30_000 });
});
