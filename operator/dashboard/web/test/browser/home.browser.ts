/** Home and timeline: their numbers are those of `trellis queue` and `trellis nodes`. A preemption is told on both sides. */

import { TEAM_A, createWaitingJob, kubectl, trainingJob, trellisJson, uniqueName, waitForPhase } from "./support/cluster";
import { expect, test } from "./support/test";
import { card, expectData, inOneLine, jobRow } from "./support/views";

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
  const attempts = card(page, "Attempts");
  await expect(attempts).toContainText("Last preemption", { timeout: 25_000 });
  await expect(attempts).toContainText(`${TEAM_A}/${urgent}`);
  await page.getByRole("navigation", { name: "Areas" }).getByRole("link", { name: "Jobs" }).click();
  await expect(jobRow(page, TEAM_A, urgent)).toContainText("Running");
  await expect(jobRow(page, TEAM_A, victim)).toContainText("Queued");
});
