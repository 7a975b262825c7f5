/** The plan page: it says what would become of a job, and what it says comes true. */

import type { Page } from "@playwright/test";

import type { PlanAnswer } from "../../src/wire/plan";
import { TEAM_A, TEAM_B, askPlan, countNodes, createWaitingJob, kubectl, toAscii, trainingJob, trellisWithInput, uniqueName, waitForPhase } from "./support/cluster";
import { HOSTILE_TEXTS } from "./support/hostile";
import { expect, test } from "./support/test";
import { checkPageInBothSizes } from "./support/text-only";
import { card, inOneLine } from "./support/views";

const PLANNED_MS = 30_000;

async function plan(page: Page, yaml: string): Promise<void> {
  await page.getByRole("textbox", { name: "Jobs as YAML" }).fill(yaml);
  await page.getByRole("button", { name: "Plan it" }).click();
  await expect(page.getByRole("button", { name: "Plan it" })).not.toHaveAttribute("aria-disabled", "true", { timeout: PLANNED_MS });
}

/** Returns the sections of a planned job as `trellis plan` prints them: name and lines. */
async function shownSections(page: Page, job: string): Promise<Map<string, string>> {
  const rows = await card(page, job).locator("dl > div").evaluateAll((all) =>
    all.map((row) => {
      const lines = [...row.querySelectorAll("dd > ul > li, dd > p.planned-reason")].map((line) => line.textContent);
      return [row.querySelector("dt")?.textContent ?? "", lines.join(" ")] as const;
    }),
  );
  return new Map(rows.map(([name, lines]) => [name, inOneLine(lines)]));
}

/** Runs `trellis plan`, and returns verdict and sections of its only job. */
async function toldPlan(yaml: string) {
  const { stdout } = await trellisWithInput("admin", yaml, "plan", "-f", "-");
  const [head = "", ...lines] = stdout.trimEnd().split("\n");
  const sections = new Map<string, string>();
  let current = "";
  for (const line of lines) {
    const named = /^ {2}(\S+) +(.*)$/.exec(line);
    if (named?.[1] !== undefined) current = named[1];
    const text = named?.[2] ?? line;
    sections.set(current, inOneLine(`${sections.get(current) ?? ""} ${text}`));
  }
  return { head, sections };
}

const yamlOf = (options: Parameters<typeof trainingJob>[0]): string => JSON.stringify(trainingJob(options), null, 2);

test("a plan says in the words of `trellis plan` where a job would run, and there it runs", async ({ dashboard, objects }) => {
  const name = uniqueName("planned");
  const job = { name, pods: 2, gpus: 8 } as const;
  test.skip((await countNodes((free) => free === 8)) < 2, "no two nodes are idle");
  const { page } = await dashboard({ path: "/plan" });
  await plan(page, yamlOf(job));
  const shown = card(page, `${TEAM_A}/${name}`);
  await expect(shown).toContainText("would run");
  const { head, sections } = await toldPlan(yamlOf(job));
  expect(head).toBe(`TrainingJob ${TEAM_A}/${name} would run`);
  const own = await shownSections(page, `${TEAM_A}/${name}`);
  // The command counts jobs that wait, which the operator plans with.
  for (const words of [own, sections]) words.delete("note");
  expect(Object.fromEntries(own)).toEqual(Object.fromEntries(sections));
  const links = await shown.getByRole("link", { name: /^gpu-\d+$/ }).allTextContents();
  await objects.apply(trainingJob(job));
  await waitForPhase(TEAM_A, name, "Running");
  const nodes = await kubectl("get", "pods", "-n", TEAM_A, "-o", `jsonpath={range .items[*]}{.metadata.name}{" "}{.spec.nodeName}{"\\n"}{end}`);
  const used = nodes.split("\n").filter((line) => line.startsWith(`${name}-`)).map((line) => line.split(" ")[1]);
  expect([...new Set(links)].toSorted()).toEqual(used.toSorted());
});

test("a plan says in the words of the operator why a job would wait", async ({ dashboard, objects }) => {
  const { pods } = await createWaitingJob(objects);
  const name = uniqueName("planned");
  const job = trainingJob({ name, pods, gpus: 8 });
  const yaml = JSON.stringify(job, null, 2);
  const { page } = await dashboard({ path: "/plan" });
  await expect(async () => {
    await plan(page, yaml);
    await expect(card(page, `${TEAM_A}/${name}`)).toContainText("would wait", { timeout: 1_000 });
    const [told] = (await askPlan("admin", job)).jobs;
    expect(told?.verdict).toBe("Waits");
    const reason = inOneLine(`${told?.reason ?? ""}: ${told?.message ?? ""}`);
    expect((await shownSections(page, `${TEAM_A}/${name}`)).get("reason")).toBe(reason);
  }).toPass({ timeout: 60_000 });
});

test("a plan changes nothing, and its command submits the job", async ({ dashboard }) => {
  const name = uniqueName("planned");
  const { page } = await dashboard({ path: "/plan" });
  await plan(page, yamlOf({ name }));
  await expect(card(page, "Submit it")).toContainText(`trellis submit -f job.yaml -n ${TEAM_A}`);
  expect(await kubectl("get", "trainingjobs", "-n", TEAM_A, "-o", "name")).not.toContain(name);
});

test("a problem of the text names its line and column, and a click puts the cursor there", async ({ dashboard }) => {
  const { page } = await dashboard({ path: "/plan" });
  const yaml = ["apiVersion: trellis.dev/v1alpha1", "kind: TrainingJob", "metadata: {name: x}", "spec:", "  bogus: 1", "  taskGroups: []"].join("\n");
  await plan(page, yaml);
  const { stderr } = await trellisWithInput("admin", yaml, "plan", "-f", "-");
  expect(stderr).toContain("bogus");
  const problem = page.getByRole("listitem").filter({ hasText: "spec.bogus" });
  await expect(problem).toContainText("is no known field");
  await problem.getByRole("button", { name: "line 5, column 3" }).click();
  const area = page.getByRole("textbox", { name: "Jobs as YAML" });
  await expect(area).toBeFocused();
  const before = await area.evaluate((element) => (element as HTMLTextAreaElement).value.slice(0, (element as HTMLTextAreaElement).selectionStart));
  expect(before.split("\n").length).toBe(5);
  expect(before.split("\n").at(-1)).toBe("  ");
});

test("a user who may only edit jobs can plan them, and gets numbers of nodes, not their names", async ({ dashboard }) => {
  const { page, faults } = await dashboard({ user: "editor", path: "/plan" });
  faults.allow(/status (of )?403/);
  const name = uniqueName("planned");
  const answered = page.waitForResponse((response) => new URL(response.url()).pathname === "/api/plan");
  await plan(page, yamlOf({ name, pods: 2, gpus: 0 }));
  const shown = card(page, `${TEAM_A}/${name}`);
  await expect(shown).toContainText("would run");
  const { jobs } = (await (await answered).json()) as PlanAnswer;
  expect(jobs.map((job) => job.nodes)).toEqual([[]]);
  expect(JSON.stringify(jobs)).not.toMatch(/gpu-\d/);
  expect((await shownSections(page, `${TEAM_A}/${name}`)).get("nodes")).toMatch(/^worker: 2 pods 2 pods on (1 node|2 nodes)$/);
  await expect(shown.getByRole("link", { name: /on map/ })).toHaveCount(0);
  expect(await kubectl("get", "trainingjobs", "-n", TEAM_A, "-o", "name")).not.toContain(name);
});

test("a user without the right to plan is told which right is missing, and how to get it", async ({ dashboard }) => {
  const { page, faults } = await dashboard({ user: "viewer", path: "/plan" });
  faults.allow(/status (of )?403/);
  await plan(page, yamlOf({ name: uniqueName("planned") }));
  const missing = card(page, "You may not plan");
  await expect(missing).toContainText("plans.visibility.trellis.dev is forbidden");
  await expect(missing).toContainText("create plans.visibility.trellis.dev");
  await expect(missing).toContainText("trellis-edit");
  await expect(missing).toContainText(`kubectl create rolebinding -n ${TEAM_A} `);
  await expect(missing).not.toContainText("clusterrolebinding");
});

test("a user can plan in no namespace but those where the user may edit jobs", async ({ dashboard }) => {
  const { page, faults } = await dashboard({ user: "editor", path: "/plan" });
  faults.allow(/status (of )?403/);
  await plan(page, yamlOf({ name: uniqueName("planned"), namespace: "default", gpus: 0 }));
  await expect(card(page, "You may not plan")).toContainText('in the namespace "default"');
});

test("jobs of two namespaces are planned apart, and other objects are named", async ({ dashboard }) => {
  const name = uniqueName("planned");
  const { page } = await dashboard({ path: "/plan" });
  const jobs = [TEAM_A, TEAM_B].map((namespace) => yamlOf({ name, namespace, gpus: 0 }));
  const node = JSON.stringify({ apiVersion: "v1", kind: "Node", metadata: { name: "gpu-0" } });
  await plan(page, [...jobs, node].join("\n---\n"));
  for (const namespace of [TEAM_A, TEAM_B]) await expect(card(page, `${namespace}/${name}`)).toContainText("would run");
  await expect(card(page, "Notes")).toContainText("jobs of different namespaces are planned apart");
  await expect(card(page, "Notes")).toContainText("Node is ignored: the page plans TrainingJobs");
  await expect(card(page, "Submit 2 jobs")).toContainText(/trellis submit -f job\.yaml(?! -n)/);
});

test("the text stays in the tab, and Ctrl-Enter plans it", async ({ dashboard }) => {
  const name = uniqueName("planned");
  const { page } = await dashboard({ path: "/plan" });
  const area = page.getByRole("textbox", { name: "Jobs as YAML" });
  await area.fill(yamlOf({ name }));
  await page.reload();
  await expect(area).toHaveValue(yamlOf({ name }));
  await area.press("Control+Enter");
  await expect(card(page, `${TEAM_A}/${name}`)).toBeVisible({ timeout: PLANNED_MS });
  expect(await page.evaluate(() => JSON.stringify({ ...localStorage }))).not.toContain(name);
});

/** Problems that the page shows at once. */
const PROBLEMS_AT_ONCE = 10;

test("hostile text of a plan is shown as text", async ({ dashboard }) => {
  const { page } = await dashboard({ path: "/plan" });
  const texts = HOSTILE_TEXTS.filter((text) => text.length < 200 && text.isWellFormed());
  const outcome = page.getByRole("region", { name: "Outcome" });
  const job = trainingJob({ name: "hostile" });
  for (let first = 0; first < texts.length; first += PROBLEMS_AT_ONCE) {
    const some = texts.slice(first, first + PROBLEMS_AT_ONCE);
    const spec = { ...(job["spec"] as object), ...Object.fromEntries(some.map((text) => [text, text])) };
    await plan(page, toAscii(JSON.stringify({ ...job, spec }, null, 2)));
    await expect(outcome.getByText(`${some.length} problems`)).toBeVisible();
    const shown = (await outcome.innerText()).replace(/\s+/g, " ");
    for (const text of some) if (/^[ !#-[\]-~]*$/.test(text)) expect(shown.includes(text), text).toBe(true);
    await checkPageInBothSizes(page);
  }
});
