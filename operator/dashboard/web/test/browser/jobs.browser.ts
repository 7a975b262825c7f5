/** Pages of jobs: they show what the command line shows, and follow the cluster without a reload. */

import {
  TEAM_A,
  createNextJob,
  createWaitingJob,
  kubectl,
  trainingJob,
  trellisJson,
  uniqueName,
  waitForPhase,
} from "./support/cluster";
import { explainJson, explainSections } from "./support/explanation";
import { expect, test } from "./support/test";
import { card, cellTexts, goTo, inOneLine, jobRow, markDocument, verdict } from "./support/views";

/** Time within which a change of the cluster is on the page: the server reads the queue every 5 s. */
const SHOWN_MS = 12_000;

interface QueueAnswer {
  readonly jobs: readonly {
    readonly metadata: { readonly namespace: string; readonly name: string };
    readonly queue: string;
    readonly priority: number;
    readonly phase?: string;
    readonly reason?: string;
    readonly message?: string;
    readonly position?: number;
    readonly gpus: number;
    readonly pods: number;
  }[];
}

test("a new job appears in the open list of jobs without a reload", async ({ dashboard, objects }) => {
  const { page } = await dashboard({ path: "/queue" });
  await expect(page.getByRole("heading", { name: "Jobs", level: 1 })).toBeVisible();
  const isSameDocument = await markDocument(page);
  const name = uniqueName();
  await objects.apply(trainingJob({ name, pods: 2 }));
  await expect(jobRow(page, TEAM_A, name)).toBeVisible({ timeout: SHOWN_MS });
  expect(await isSameDocument()).toBe(true);
});

test("a job that ends leaves the open list of jobs without a reload", async ({ dashboard, objects }) => {
  const name = uniqueName();
  await objects.apply(trainingJob({ name }));
  const { page } = await dashboard({ path: "/queue" });
  await expect(jobRow(page, TEAM_A, name)).toBeVisible({ timeout: SHOWN_MS });
  await objects.remove("trainingjob", name, TEAM_A);
  await expect(jobRow(page, TEAM_A, name)).toHaveCount(0, { timeout: SHOWN_MS });
});

test("the list of jobs has the numbers of `trellis queue`", async ({ dashboard, objects }) => {
  const { waiting } = await createWaitingJob(objects);
  const { page } = await dashboard({ path: "/queue" });
  await expect(async () => {
    const { jobs } = await trellisJson<QueueAnswer>("queue", "-A");
    expect(jobs.length).toBeGreaterThan(1);
    await expect(page.getByRole("row").filter({ has: page.getByRole("cell") })).toHaveCount(jobs.length, { timeout: 100 });
    for (const job of jobs) {
      const [position, name, , queue, priority, gpus, pods, state, , , reason] = await cellTexts(
        jobRow(page, job.metadata.namespace, job.metadata.name),
      );
      expect({ position, name, queue, priority, gpus, pods, state }).toEqual({
        position: String(job.position ?? ""),
        name: `${job.metadata.namespace}/${job.metadata.name}`,
        queue: job.queue,
        priority: String(job.priority),
        gpus: String(job.gpus),
        pods: String(job.pods),
        state: job.phase,
      });
      if (job.metadata.name === waiting) expect(reason).toBe(inOneLine(`${job.reason}: ${job.message}`));
    }
  }).toPass({ timeout: 30_000 });
});

test("the page of a waiting job explains it in the words of `trellis explain`", async ({ dashboard, objects }) => {
  const { waiting } = await createWaitingJob(objects);
  const { page } = await dashboard({ path: `/jobs/${TEAM_A}/${waiting}` });
  await expect(verdict(page)).toContainText("Queued");
  // Times in the message may change between two reads.
  await expect(async () => {
    const { explanation } = await explainJson(TEAM_A, waiting);
    expect(explanation?.message).toMatch(/^needs \d+ nvidia\.com\/gpu, \d+ are free/);
    const shown = await verdict(page).locator(".verdict-message").textContent();
    expect(shown).toBe(explanation?.message);
    await expect(verdict(page)).toContainText(explanation?.reason ?? "no reason", { timeout: 100 });
  }).toPass({ timeout: 40_000 });
});

test("the page of a waiting job lists what would help in the words of `trellis explain`", async ({ dashboard, objects }) => {
  const { waiting } = await createWaitingJob(objects);
  const { page } = await dashboard({ path: `/jobs/${TEAM_A}/${waiting}` });
  const help = card(page, "What would help");
  await expect(help).toBeVisible();
  await expect(async () => {
    const told = await explainSections("admin", TEAM_A, waiting);
    const shown = await help.locator("section").evaluateAll((sections) =>
      sections.map((section) => {
        const heading = section.querySelector("h3")?.cloneNode(true) as HTMLElement | undefined;
        // A link beside the heading is of the page alone.
        for (const link of heading?.querySelectorAll("a") ?? []) link.remove();
        const lines = [...section.querySelectorAll("li, p")].map((line) => line.textContent);
        return { heading: heading?.textContent?.trim() ?? "", text: lines.join(" ") };
      }),
    );
    expect(shown.map(({ heading }) => heading)).toContain("The smallest change that would help");
    for (const { heading, text } of shown) expect(inOneLine(text)).toBe(told.get(heading));
    const headings = [...told.keys()].filter((heading) => /would help|would start|Next steps/.test(heading));
    expect(shown.map(({ heading }) => heading)).toEqual(headings);
  }).toPass({ timeout: 40_000 });
});

test("what a sentence names leads to its page", async ({ dashboard, objects }) => {
  const { waiting } = await createWaitingJob(objects);
  const { page } = await dashboard({ path: `/jobs/${TEAM_A}/${waiting}` });
  const help = card(page, "What would help");
  const node = await help.getByRole("link", { name: /^(gpu|cpu)-\d+$/ }).first().textContent();
  await help.getByRole("link", { name: node ?? "", exact: true }).first().click();
  await expect(page.getByRole("heading", { level: 1, name: node ?? "", exact: true })).toBeVisible();
  expect(new URL(page.url()).pathname).toBe(`/nodes/${node}`);
  await page.goBack();
  await expect(page.getByRole("heading", { level: 1, name: waiting })).toBeVisible();
});

test("a waiting job starts, and its page changes without a reload", async ({ dashboard, objects }) => {
  const { holder, waiting, pods } = await createNextJob(objects);
  const { page } = await dashboard({ path: `/jobs/${TEAM_A}/${waiting}` });
  await expect(verdict(page)).toContainText("Queued");
  await expect(card(page, "Shortage")).toBeVisible();
  const isSameDocument = await markDocument(page);
  await objects.remove("trainingjob", holder, TEAM_A);
  await expect(verdict(page)).toContainText("Running", { timeout: 25_000 });
  await expect(card(page, "Gang")).toContainText(`${pods}/${pods} ready`, { timeout: 25_000 });
  await expect(card(page, "Shortage")).toHaveCount(0);
  expect(await isSameDocument()).toBe(true);
});

test("a failed rank shows its exit code and its last line", async ({ dashboard, objects }) => {
  const name = uniqueName();
  await objects.apply(trainingJob({ name, pods: 2 }));
  await waitForPhase(TEAM_A, name, "Running");
  const { page } = await dashboard({ path: `/jobs/${TEAM_A}/${name}` });
  await expect(verdict(page)).toContainText("Running");
  const pod = `${name}-worker-1`;
  const line = "RuntimeError: out of memory";
  await kubectl("annotate", "pod", pod, "-n", TEAM_A, `test.trellis.dev/last-words=${line}`, "test.trellis.dev/exit=17");
  await expect(verdict(page)).toContainText("Failed", { timeout: 25_000 });
  const attempts = card(page, "Attempts");
  await expect(attempts).toContainText("exit code 17", { timeout: 25_000 });
  await expect(attempts).toContainText(line);
  await expect(attempts).toContainText(pod);
});

test("the cell of a failed rank opens its pod, node, exit code and last line", async ({ dashboard, objects }) => {
  const name = uniqueName();
  await objects.apply(trainingJob({ name, pods: 3 }));
  await waitForPhase(TEAM_A, name, "Running");
  const pod = `${name}-worker-2`;
  const line = "the disk is full";
  await kubectl("annotate", "pod", pod, "-n", TEAM_A, `test.trellis.dev/last-words=${line}`, "test.trellis.dev/exit=3");
  await waitForPhase(TEAM_A, name, "Failed");
  const node = await kubectl("get", "pod", pod, "-n", TEAM_A, "-o", "jsonpath={.spec.nodeName}");
  const { page } = await dashboard({ path: `/jobs/${TEAM_A}/${name}` });
  const gang = card(page, "Gang");
  await gang.getByRole("button", { name: "Rank 2, failed" }).click();
  const details = page.getByRole("region", { name: "Rank 2" });
  await expect(details).toContainText(pod);
  await expect(details.getByRole("link", { name: node, exact: true })).toBeVisible();
  await expect(details.getByText("Exit code").locator("..")).toContainText("3");
  await expect(details).toContainText(line);
});

test("a job that is deleted is shown as gone, with what was known last", async ({ dashboard, objects }) => {
  const name = uniqueName();
  await objects.apply(trainingJob({ name, pods: 2 }));
  await waitForPhase(TEAM_A, name, "Running");
  const { page, faults } = await dashboard({ path: `/jobs/${TEAM_A}/${name}` });
  faults.allow(notFoundFault(name));
  await expect(card(page, "Gang")).toContainText("2/2 ready");
  await objects.remove("trainingjob", name, TEAM_A);
  await expect(page.getByText("This job is gone")).toBeVisible({ timeout: 25_000 });
  await expect(card(page, "Gang")).toBeVisible();
  await page.reload();
  await expect(page.getByRole("main")).toContainText("may have been deleted");
  await expect(card(page, "Attempts").getByRole("listitem")).toContainText(/Attempt 1\s*Deleted/);
});

test("the page of a job lists its ended attempts, the newest first", async ({ dashboard, objects }) => {
  const name = uniqueName("again");
  await objects.apply(trainingJob({ name, restarts: 3 }));
  const { page } = await dashboard({ path: `/jobs/${TEAM_A}/${name}` });
  for (const attempt of [1, 2]) {
    await waitForPhase(TEAM_A, name, "Running");
    await expect(card(page, "Attempts")).toContainText(`attempt ${attempt} now`, { timeout: 25_000 });
    await kubectl("annotate", "pod", `${name}-worker-0`, "-n", TEAM_A, `test.trellis.dev/exit=${attempt + 20}`);
    await expect(card(page, "Attempts")).toContainText(`exit code ${attempt + 20}`, { timeout: 40_000 });
  }
  const list = card(page, "Attempts").getByRole("list", { name: "Ended attempts" }).getByRole("listitem");
  await expect(list).toHaveCount(2, { timeout: 25_000 });
  await expect(list.first()).toContainText(/Attempt 2\s*Failed.*exit code 22/);
  await expect(list.last()).toContainText(/Attempt 1\s*Failed.*exit code 21/);
});

test("the page of a job that has never existed says so", async ({ dashboard }) => {
  const name = uniqueName("missing");
  const { page, faults } = await dashboard({ path: `/jobs/${TEAM_A}/${name}` });
  faults.allow(notFoundFault(name));
  await expect(page.getByRole("main")).toContainText(`"${name}"`);
  await expect(page.getByRole("main")).toContainText("may have been deleted");
  await expect(page.getByRole("link", { name: "All jobs" })).toBeVisible();
});

test("a deep link opens its page, keeps no code in the URL, and survives a reload", async ({ dashboard, objects }) => {
  const name = uniqueName();
  await objects.apply(trainingJob({ name, pods: 2 }));
  await waitForPhase(TEAM_A, name, "Running");
  const { page } = await dashboard({ path: `/jobs/${TEAM_A}/${name}` });
  await expect(verdict(page)).toContainText("Running");
  expect(new URL(page.url()).hash).toBe("");
  await page.reload();
  await expect(verdict(page)).toContainText("Running");
  await goTo(page, `/queue?text=${name}&sort=-gpus`);
  await expect(jobRow(page, TEAM_A, name)).toBeVisible();
  await page.reload();
  await expect(jobRow(page, TEAM_A, name)).toBeVisible();
  await expect(page.getByRole("searchbox", { name: "Filter by text" })).toHaveValue(name);
  await expect(page.getByRole("row").filter({ has: page.getByRole("cell") })).toHaveCount(1);
});

test("the page of external pods explains them in the words of `trellis explain`", async ({ dashboard, objects }) => {
  const name = uniqueName("sweep");
  const pod = externalPod(name, name);
  const group = { apiVersion: "trellis.dev/v1alpha1", kind: "PodGroup", metadata: { name, namespace: TEAM_A }, spec: { minMember: 1 } };
  await objects.apply(group, pod);
  const { page } = await dashboard({ path: "/queue" });
  const row = jobRow(page, TEAM_A, `PodGroup/${name}`);
  await expect(row).toBeVisible({ timeout: SHOWN_MS });
  await row.getByRole("link", { name: `${TEAM_A}/PodGroup/${name}` }).click();
  await expect(page.getByRole("heading", { level: 1 })).toHaveText(`PodGroup/${name}`);
  expect(new URL(page.url()).pathname).toBe(`/jobs/${TEAM_A}/podgroup.${name}`);
  await expect(async () => {
    const { explanation } = await explainJson(TEAM_A, `podgroup/${name}`);
    expect(explanation?.message).not.toBe("");
    expect(await verdict(page).locator(".verdict-message").textContent()).toBe(explanation?.message);
  }).toPass({ timeout: 40_000 });
  await expect(page.getByRole("code").first()).toContainText(`podgroup/${name}`);
});

test("the page of a single external pod explains it in the words of `trellis explain`", async ({ dashboard, objects }) => {
  const name = uniqueName("single");
  await objects.apply(externalPod(name));
  const { page } = await dashboard({ path: `/jobs/${TEAM_A}/pod.${name}` });
  await expect(page.getByRole("heading", { level: 1 })).toHaveText(`Pod/${name}`);
  await expect(async () => {
    const { explanation } = await explainJson(TEAM_A, `pod/${name}`);
    expect(await verdict(page).locator(".verdict-message").textContent()).toBe(explanation?.message);
  }).toPass({ timeout: 40_000 });
});

/** A pod that Trellis schedules for another controller. It asks for more than a node has. */
function externalPod(name: string, group?: string) {
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name, namespace: TEAM_A, ...(group !== undefined && { labels: { "trellis.dev/pod-group": group } }) },
    spec: {
      schedulerName: "trellis",
      restartPolicy: "Never",
      tolerations: [{ key: "nvidia.com/gpu", operator: "Exists", effect: "NoSchedule" }],
      containers: [
        {
          name: "main",
          image: "registry.example/test:1",
          resources: { requests: { cpu: "1", memory: "1Gi" }, limits: { "nvidia.com/gpu": "16" } },
        },
      ],
    },
  };
}

/** The browser's console notes each answer 404, too. */
function notFoundFault(name: string): RegExp {
  return new RegExp(`(status 404: GET|status of 404).*/api/jobs/${TEAM_A}/${name}`);
}
