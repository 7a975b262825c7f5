/** Home and timeline: their numbers are those of `trellis queue`, `trellis nodes` and `trellis history`. A preemption is told on both sides. */

import type { Locator, Page } from "@playwright/test";

import { TEAM_A, createWaitingJob, kubectl, trainingJob, trellisJson, uniqueName, waitForPhase } from "./support/cluster";
import { expect, test } from "./support/test";
import { card, expectData, goTo, inOneLine, jobRow } from "./support/views";

interface JobRow {
  readonly metadata: { readonly namespace: string; readonly name: string };
  readonly user?: string;
  readonly queue: string;
  readonly phase?: string;
  readonly position?: number;
  readonly gpus: number;
}

const readJobs = async (): Promise<readonly JobRow[]> => (await trellisJson<{ readonly jobs: readonly JobRow[] }>("queue", "-A")).jobs;

/** The count of jobs and their GPUs, as home shows them. */
function tileOf(jobs: readonly JobRow[], verb: string): string {
  const gpus = jobs.reduce((sum, job) => sum + job.gpus, 0);
  return `${jobs.length} ${verb} ${gpus} ${gpus === 1 ? "GPU" : "GPUs"}`;
}

test("home has the counts of `trellis queue`, and the free GPUs of `trellis nodes`", async ({ dashboard, objects }) => {
  const { waiting } = await createWaitingJob(objects);
  const { page } = await dashboard();
  const tiles = page.getByRole("list", { name: "The cluster in numbers" }).getByRole("listitem");
  await expect(async () => {
    const jobs = await readJobs();
    const nodes = await trellisJson<readonly { readonly schedulable: boolean; readonly resources?: readonly { readonly resource: string; readonly free?: string }[] }[]>("nodes");
    const gpus = nodes.filter((node) => node.schedulable).flatMap((node) => node.resources ?? []).filter((row) => row.resource === "nvidia.com/gpu");
    const free = gpus.reduce((sum, row) => sum + Number(row.free ?? 0), 0);
    const shown = (await tiles.allInnerTexts()).map(inOneLine);
    expect(shown[0]).toContain(tileOf(jobs.filter((job) => job.position === undefined), "hold"));
    expect(shown[1]).toContain(tileOf(jobs.filter((job) => job.position !== undefined), "want"));
    expect(shown[3]).toMatch(new RegExp(`\\b${free} of \\d+ nvidia\\.com/gpu$`));
  }).toPass({ timeout: 40_000 });
  await expect(card(page, "First in each queue").getByRole("link", { name: `${TEAM_A}/${waiting}` })).toBeVisible();
});

test("home shows the jobs of the user first, and what changes while it is open", async ({ dashboard, objects }) => {
  const { holder, waiting } = await createWaitingJob(objects);
  const { page } = await dashboard();
  await expectData(page);
  const me = (await kubectl("auth", "whoami", "-o", "jsonpath={.status.userInfo.username}")).trim();
  const usersOfOwn = async () => (await readJobs()).filter((job) => [holder, waiting].includes(job.metadata.name)).map((job) => job.user);
  await expect.poll(usersOfOwn).toEqual([me, me]);
  for (const name of [holder, waiting]) await expect(card(page, "My jobs").getByRole("link", { name: `${TEAM_A}/${name}` })).toBeVisible();
  const next = uniqueName();
  await objects.apply(trainingJob({ name: next, gpus: 0 }));
  await expect(card(page, "What changed")).toContainText(next, { timeout: 12_000 });
});

test("the timeline describes the job under the keyboard with the numbers of `trellis queue`", async ({ dashboard, objects }) => {
  const { waiting } = await createWaitingJob(objects);
  const { page } = await dashboard({ path: `/queue?view=timeline&text=${waiting}` });
  const timeline = page.getByRole("application", { name: "Timeline of jobs" });
  await timeline.focus();
  const spoken = page.getByRole("status").filter({ hasText: waiting });
  // The list of the scheduler gets the job some seconds later.
  await expect(async () => {
    await timeline.press("ArrowDown");
    await expect(spoken).toHaveCount(1, { timeout: 500 });
  }).toPass({ timeout: 20_000 });
  let job: JobRow | undefined;
  await expect.poll(async () => (job = (await readJobs()).find((row) => row.metadata.name === waiting))?.position).toBeDefined();
  await expect(spoken).toContainText(`${TEAM_A}/${waiting}, queue ${job?.queue}: Queued for`);
  await expect(spoken).toContainText(`${job?.gpus} GPUs, number ${job?.position} of its queue`);
  await timeline.press("Enter");
  await expect(page.getByRole("heading", { level: 1 })).toHaveText(waiting);
});

test("a preemption is told on the page of the victim, and the preemptor runs", async ({ dashboard, objects }) => {
  const queue = uniqueName("small");
  const [victim, urgent, priority] = [uniqueName("victim"), uniqueName("urgent"), uniqueName("priority")];
  const quota = { cpu: 100, memory: "1Ti", "nvidia.com/gpu": 2 };
  await objects.apply(
    { apiVersion: "scheduling.k8s.io/v1", kind: "PriorityClass", metadata: { name: priority }, value: 1000, globalDefault: false },
    {
      apiVersion: "trellis.dev/v1alpha1",
      kind: "TrainingQueue",
      metadata: { name: queue },
      spec: {
        namespaceSelector: {},
        preemption: { withinClusterQueue: "LowerPriority" },
        resourceGroups: [
          {
            coveredResources: Object.keys(quota),
            flavors: [{ name: "default", resources: Object.entries(quota).map(([name, nominalQuota]) => ({ name, nominalQuota })) }],
          },
        ],
      },
    },
    trainingJob({ name: victim, pods: 2, queue }),
  );
  await waitForPhase(TEAM_A, victim, "Running");
  const { page } = await dashboard({ path: `/jobs/${TEAM_A}/${victim}` });
  await expect(card(page, "Gang")).toContainText("2/2 ready");
  const job = trainingJob({ name: urgent, pods: 2, queue });
  await objects.apply({ ...job, spec: { ...(job["spec"] as object), priorityClassName: priority } });
  await waitForPhase(TEAM_A, urgent, "Running");
  const attempt = endedAttempts(page).getByRole("listitem");
  await expect(attempt).toContainText(/Attempt 1\s*Preempted/, { timeout: 25_000 });
  await expect(attempt).toContainText(`${TEAM_A}/${urgent}`);
  await expect(attempt).toContainText(/placed .*, ran .*, ended .*; held 2 GPUs for/);
  // The list has told it.
  await expect(card(page, "Attempts")).not.toContainText("Last preemption");
  await page.getByRole("navigation", { name: "Areas" }).getByRole("link", { name: "Jobs" }).click();
  await expect(jobRow(page, TEAM_A, urgent)).toContainText("Running");
  await expect(jobRow(page, TEAM_A, victim)).toContainText("Queued");
  await goTo(page, `/queue?view=timeline&text=${victim}`);
  const spoken = await walkTimeline(page, victim);
  await expect(spoken).toContainText(new RegExp(`queue ${queue}: Queued for .* Attempt 1: Preempted .* ago after .*${TEAM_A}/${urgent}`));
  await goTo(page, "/");
  const broken = page.getByRole("region", { name: "What broke" });
  await expect(broken.getByRole("link", { name: /attempts? (was|were) preempted$/ })).toBeVisible();
  await expect(broken.getByRole("link", { name: `${TEAM_A}/${victim}` })).toBeVisible();
});

test("a failed attempt is told on the timeline, on home and on the page of its job", async ({ dashboard, objects }) => {
  const name = uniqueName("fails");
  await objects.apply(trainingJob({ name, pods: 2 }));
  await waitForPhase(TEAM_A, name, "Running");
  const line = "RuntimeError: out of memory";
  await kubectl("annotate", "pod", `${name}-worker-1`, "-n", TEAM_A, `test.trellis.dev/last-words=${line}`, "test.trellis.dev/exit=17");
  await waitForPhase(TEAM_A, name, "Failed");
  const { page } = await dashboard({ path: `/queue?view=timeline&text=${name}` });
  const spoken = await walkTimeline(page, name);
  await expect(spoken).toContainText("neither pending nor placed");
  await expect(spoken).toContainText(new RegExp(`Attempt 1: Failed .* ago after .*, ${name}-worker-1 .*, exit code 17: ${line}`));
  await expect(page.getByRole("region", { name: "Chosen job" })).toContainText("Attempt 1: Failed");
  await goTo(page, "/");
  const broken = page.getByRole("region", { name: "What broke" });
  await expect(broken).toContainText("exit code 17");
  await expect(broken.getByRole("link", { name: `${TEAM_A}/${name}` })).toBeVisible();
  await broken.getByRole("link", { name: /attempts? failed$/ }).click();
  expect(new URL(page.url()).search).toBe("?from=-1h&to=15m&view=timeline");
  await goTo(page, `/jobs/${TEAM_A}/${name}`);
  const attempt = endedAttempts(page).getByRole("listitem");
  await expect(attempt).toContainText(/Attempt 1\s*Failed/);
  await expect(attempt).toContainText(line);
  await expect(card(page, "Attempts")).not.toContainText("Last failure");
});

test("home tells the ended attempts of `trellis history` only to users who may see all namespaces", async ({ dashboard, objects }) => {
  const name = uniqueName("restarts");
  await objects.apply(trainingJob({ name, restarts: 2 }));
  await waitForPhase(TEAM_A, name, "Running");
  await kubectl("annotate", "pod", `${name}-worker-0`, "-n", TEAM_A, "test.trellis.dev/exit=5");
  const readEnded = async () => (await trellisJson<readonly EndedRow[]>("history", "-A")).filter((ended) => ended.failure !== undefined);
  await expect.poll(async () => (await readEnded()).at(0)?.job, { timeout: 30_000 }).toBe(name);
  const { page } = await dashboard();
  const hourAgo = Date.now() - 3_600_000;
  const failed = (await readEnded()).filter(({ ended }) => Date.parse(ended) >= hourAgo).length;
  const broken = page.getByRole("region", { name: "What broke" });
  await expect(broken).toContainText(`${failed} ${failed === 1 ? "attempt failed" : "attempts failed"} in the last hour`);
  const { page: own } = await dashboard({ user: "viewer" });
  await expectData(own);
  await expect(own.getByRole("region", { name: "What broke" })).toHaveCount(0);
  await goTo(own, `/queue?view=timeline&text=${name}`);
  await expect(await walkTimeline(own, name)).toContainText("Attempt 1: Failed");
});

interface EndedRow {
  readonly job: string;
  readonly ended: string;
  readonly failure?: { readonly exitCode?: number };
}

/** Returns the list of ended attempts of the page of a job. */
function endedAttempts(page: Page): Locator {
  return card(page, "Attempts").getByRole("list", { name: "Ended attempts" });
}

/** Walks to the only job of the timeline, and returns what a screen reader says. */
async function walkTimeline(page: Page, name: string): Promise<Locator> {
  const timeline = page.getByRole("application", { name: "Timeline of jobs" });
  const spoken = page.getByRole("status").filter({ hasText: name }).filter({ hasText: "Attempt 1" });
  await expect(async () => {
    await timeline.focus({ timeout: 1_000 });
    await timeline.press("ArrowDown");
    await expect(spoken).toHaveCount(1, { timeout: 500 });
  }).toPass({ timeout: 30_000 });
  return spoken;
}
