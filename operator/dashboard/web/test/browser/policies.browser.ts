/** Pages of policies: their states are those of the objects, and each user sees what kubectl gives that user. */

import type { JobPolicy, PoliciesAnswer, QuotaPolicy } from "../../src/wire/policy";
import { type KubernetesObject, TEAM_A, TEAM_B, kubectl, kubectlAs, trainingJob, uniqueName, waitForPhase } from "./support/cluster";
import { stable } from "./support/compare";
import type { UserName } from "./support/environment";
import { HOSTILE_TEXTS, isPlain } from "./support/hostile";
import { expect, test } from "./support/test";
import { checkPageInBothSizes } from "./support/text-only";
import { card, goTo } from "./support/views";

/** The page reads policies every 15 seconds. */
const POLL_MS = 25_000;

/** A job with an image that only policies of this test name. */
function jobWithImage(name: string, image: string): KubernetesObject {
  const job = trainingJob({ name });
  const spec = job["spec"] as { readonly taskGroups: readonly object[] };
  return { ...job, spec: { ...spec, taskGroups: spec.taskGroups.map((group) => ({ ...group, image: `registry.example/${image}:1` })) } };
}

const forbid = (id: string, image: string): string =>
  `@id("${id}")\nforbid(principal, action == Trellis::Action::"UseImage", resource)\nwhen { resource.repository == "${image}" };\n`;

function clusterPolicy(name: string, cedar: string, enforcement = "Deny"): KubernetesObject {
  return { apiVersion: "trellis.dev/v1alpha1", kind: "ClusterJobPolicy", metadata: { name }, spec: { cedar, enforcement } };
}

function jobPolicy(namespace: string, name: string, cedar: string): KubernetesObject {
  return { apiVersion: "trellis.dev/v1alpha1", kind: "JobPolicy", metadata: { namespace, name }, spec: { cedar } };
}

/** Limits on the jobs of {@link TEAM_A}. */
function quotaPolicy(name: string, limits: object, more: object = {}): KubernetesObject {
  const subject = { namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": TEAM_A } }, ...more };
  return { apiVersion: "trellis.dev/v1alpha1", kind: "QuotaPolicy", metadata: { name }, spec: { subject, limits, each: "Requester" } };
}

async function waitForActive(kind: string, name: string, namespace?: string, status = "True"): Promise<void> {
  const place = namespace === undefined ? [] : ["-n", namespace];
  await kubectl("wait", kind, name, ...place, `--for=condition=Active=${status}`, "--timeout=50s");
}

test("a denied job is listed with the policy that denies it, and links lead from each to the other", async ({ dashboard, objects }) => {
  const name = uniqueName("closed");
  await objects.apply(clusterPolicy(name, forbid("image", name)));
  await waitForActive("clusterjobpolicy", name);
  await objects.apply(jobWithImage(name, name));
  await waitForPhase(TEAM_A, name, "Refused");

  const { page } = await dashboard({ path: "/policies" });
  const job = card(page, "Jobs that policies deny or warn").getByRole("listitem").filter({ has: page.getByRole("link", { name: `${TEAM_A}/${name}` }) });
  await expect(job).toContainText("Denied");
  await expect(job).toContainText("Refused");
  await job.getByRole("link", { name: `${name}/image` }).click();

  await expect(page.getByRole("heading", { level: 1 })).toHaveText(name);
  await expect(card(page, "Text")).toContainText(`resource.repository == "${name}"`);
  await expect(card(page, "ClusterJobPolicy")).toContainText("Active");
  await card(page, "Jobs that it decides on").getByRole("link", { name: `${TEAM_A}/${name}` }).click();

  await expect(page.getByRole("heading", { level: 1 })).toHaveText(name);
  await card(page, "Policy").getByRole("link", { name: `${name}/image` }).click();
  await expect(card(page, "ClusterJobPolicy")).toBeVisible();
  await page.reload();
  await expect(card(page, "ClusterJobPolicy")).toBeVisible();
});

test("a missing permit is a text to copy, as the status of the job has it", async ({ dashboard, objects }) => {
  const name = uniqueName("permit");
  const job = trainingJob({ name });
  const spec = { ...(job["spec"] as object), podMetadata: { annotations: { "test.example.org/effect": "true" } } };
  await objects.apply({ ...job, spec });
  await waitForPhase(TEAM_A, name, "Refused");
  const permit = await kubectl("get", "trainingjob", name, "-n", TEAM_A, "-o", "jsonpath={.status.policy.missingPermits[0]}");
  expect(permit).toContain("permit(");
  const { page } = await dashboard({ path: "/policies", context: { permissions: ["clipboard-read", "clipboard-write"] } });
  const row = card(page, "Jobs that policies deny or warn").locator(".policy-jobs > li").filter({ hasText: name });
  await expect(row.locator("pre")).toHaveText(permit);
  await row.getByRole("button", { name: "Copy permit" }).click();
  expect(await page.evaluate(() => navigator.clipboard.readText())).toBe(permit);
});

test("jobs that a policy would deny are on its page and in the list, and leave it with the policy", async ({ dashboard, objects }) => {
  const name = uniqueName("audit");
  await objects.apply(jobWithImage(name, name));
  await waitForPhase(TEAM_A, name, "Running");
  await objects.apply(clusterPolicy(name, forbid("image", name), "Audit"));
  await kubectl("wait", "clusterjobpolicy", name, "--for=jsonpath={.status.violationCount}=1", "--timeout=50s");
  const { page } = await dashboard({ path: "/policies" });
  const row = card(page, "Job policies").locator(".policy-row").filter({ hasText: name });
  await expect(row).toContainText("1 job would be denied");
  await expect(row).toContainText("Audit");
  await row.getByRole("link", { name }).click();
  const violations = card(page, "1 job would be denied");
  await expect(violations.getByRole("link", { name: `${TEAM_A}/${name}` })).toBeVisible();
  await expect(violations).toContainText("registry.example");
  await objects.remove("clusterjobpolicies.trellis.dev", name);
  await expect(page.getByRole("main")).toContainText("No policy that you may list has this name.", { timeout: POLL_MS });
});

test("a policy that is not active comes first, with the reason", async ({ dashboard, objects }) => {
  const [broken, good] = [uniqueName("z-broken"), uniqueName("a-good")];
  await objects.apply(clusterPolicy(broken, "forbid(principal, action, resource"), clusterPolicy(good, forbid("image", good)));
  await waitForActive("clusterjobpolicy", good);
  await waitForActive("clusterjobpolicy", broken, undefined, "False");
  const { page } = await dashboard({ path: "/policies" });
  const rows = card(page, "Job policies").locator(".policy-row");
  await expect(rows.first()).toContainText(broken);
  await expect(rows.first()).toContainText("Not active");
  const [, reason] = (await kubectl("get", "clusterjobpolicy", broken, "-o", "jsonpath={range .status.conditions[?(@.type=='Stalled')]}x {.reason}{end}")).split(" ");
  await expect(rows.first()).toContainText(reason ?? "no reason");
});

test("a quota policy has a bar for each limit with the numbers of its status", async ({ dashboard, objects }) => {
  const [name, job] = [uniqueName("limits"), uniqueName("counted")];
  await objects.apply(quotaPolicy(name, { runningJobs: 40, podsPerJob: 3_000, resources: [{ resource: "nvidia.com/gpu", max: "64" }] }), trainingJob({ name: job }));
  await waitForPhase(TEAM_A, job, "Running");
  await waitForActive("quotapolicy", name);
  const { page } = await dashboard({ path: `/policies/${name}` });
  await expect(card(page, "QuotaPolicy")).toContainText("at most 3000 pods");
  await expect(async () => {
    const { status } = JSON.parse(await kubectl("get", "quotapolicy", name, "-o", "json")) as QuotaPolicy;
    const expected = (status?.holders ?? []).flatMap(({ uses }) => uses.map(({ used, max }) => `${used} of ${max}`));
    expect(expected).toHaveLength(2);
    const shown = await card(page, "Usage").locator(".policy-use-numbers").allInnerTexts();
    expect(shown.map((text) => text.replace(/ full$/, ""))).toEqual(expected);
  }).toPass({ timeout: POLL_MS * 2 });
});

test("the namespace in the URL leaves out JobPolicies of other namespaces", async ({ dashboard, objects }) => {
  const name = uniqueName("scoped");
  await objects.apply(jobPolicy(TEAM_A, name, forbid("image", name)), jobPolicy(TEAM_B, name, forbid("image", name)));
  const { page } = await dashboard({ path: "/policies" });
  const links = card(page, "Job policies").getByRole("link", { name: new RegExp(`/${name}$`) });
  await expect(links).toHaveCount(2);
  await page.getByRole("combobox", { name: "Namespace" }).selectOption(TEAM_B);
  await expect(links).toHaveText([`${TEAM_B}/${name}`]);
  expect(new URL(page.url()).search).toBe(`?namespace=${TEAM_B}`);
  await page.keyboard.press("Escape");
  await page.getByRole("heading", { level: 1 }).click();
  await page.keyboard.press("g");
  await page.keyboard.press("o");
  await expect(links).toHaveCount(2);
});

/** What a kind of `kubectl get --raw` gives a user: names with namespaces, or undefined without the right. */
async function namesFor(user: UserName, kind: string): Promise<readonly string[] | undefined> {
  const { code, stdout } = await kubectlAs(user, "get", "--raw", `/apis/trellis.dev/v1alpha1/${kind}`);
  if (code !== 0) return undefined;
  const { items } = JSON.parse(stdout) as { readonly items: readonly KubernetesObject[] };
  return items.map(({ metadata }) => `${metadata.namespace ?? ""}/${metadata.name}`).sort();
}

const keysOf = (policies: readonly Pick<JobPolicy, "namespace" | "name">[]): readonly string[] =>
  policies.map(({ namespace = "", name }) => `${namespace}/${name}`).sort();

for (const user of ["admin", "viewer", "editor", "platform", "stranger"] as const) {
  test(`the route of policies gives ${user} what kubectl gives`, async ({ serve, objects }) => {
    const name = uniqueName("secret");
    await objects.apply(
      clusterPolicy(name, forbid("image", name)),
      jobPolicy(TEAM_A, name, forbid("image", name)),
      jobPolicy(TEAM_B, name, forbid("image", name)),
      quotaPolicy(name, { runningJobs: 1_000 }),
    );
    const server = await serve(user);
    const answer = await server.get("/api/policies");
    expect(answer.status).toBe(200);
    const { jobPolicies, quotaPolicies, unread, notes } = JSON.parse(answer.text) as PoliciesAnswer;
    const [cluster, quota] = [await namesFor(user, "clusterjobpolicies"), await namesFor(user, "quotapolicies")];
    const own = (await namesFor(user, "jobpolicies")) ?? (await namesFor(user, `namespaces/${TEAM_A}/jobpolicies`));
    expect(keysOf(jobPolicies.filter(({ kind }) => kind === "ClusterJobPolicy"))).toEqual(cluster ?? []);
    expect(keysOf(jobPolicies.filter(({ kind }) => kind === "JobPolicy"))).toEqual(own ?? []);
    expect(keysOf(quotaPolicies)).toEqual(quota ?? []);
    expect(unread.includes("clusterjobpolicies")).toBe(cluster === undefined);
    expect(unread.includes("jobpolicies")).toBe(own === undefined);
    expect(unread.includes("quotapolicies")).toBe(quota === undefined);
    expect(notes.length).toBeGreaterThanOrEqual(unread.length);
    if (cluster) {
      const { status } = JSON.parse(await kubectl("get", "clusterjobpolicy", "starter", "-o", "json")) as JobPolicy;
      expect(stable(jobPolicies.find((policy) => policy.name === "starter")?.status)).toEqual(stable(status));
    }
    const other = await server.get(`/api/policies?namespace=${TEAM_B}`);
    const mayRead = (await namesFor(user, `namespaces/${TEAM_B}/jobpolicies`)) !== undefined;
    expect((JSON.parse(other.text) as PoliciesAnswer).jobPolicies.some(({ namespace }) => namespace === TEAM_B)).toBe(mayRead);
  });
}

test("a user of one namespace sees its policies, and notes for the rest", async ({ dashboard, objects }) => {
  const [own, secret] = [uniqueName("own"), uniqueName("secret")];
  await objects.apply(jobPolicy(TEAM_A, own, forbid("image", own)), jobPolicy(TEAM_B, secret, forbid("image", secret)));
  const { page, faults } = await dashboard({ user: "viewer", path: "/policies" });
  faults.allow(/status (of )?403/);
  await expect(card(page, "Job policies")).toContainText(`${TEAM_A}/${own}`);
  const main = page.getByRole("main");
  await expect(main).toContainText("list clusterjobpolicies.trellis.dev in the cluster");
  await expect(card(page, "Quota policies")).toContainText("QuotaPolicies could not be read.");
  await expect(main).not.toContainText(secret);
});

test("a user without rights is told which rights are missing", async ({ dashboard }) => {
  const { page, faults } = await dashboard({ user: "stranger", path: "/policies" });
  faults.allow(/status (of )?403/);
  const main = page.getByRole("main");
  await expect(card(page, "Job policies")).toContainText("ClusterJobPolicies and JobPolicies could not be read.");
  await expect(card(page, "Quota policies")).toContainText("QuotaPolicies could not be read.");
  await expect(card(page, "Jobs that policies deny or warn")).toContainText("TrainingJobs could not be read.");
  await expect(main).toContainText("the ClusterRole trellis-view has it");
});

test("hostile texts of policies and names of users are shown as text", async ({ dashboard, objects }) => {
  const name = uniqueName("hostile");
  const texts = HOSTILE_TEXTS.map((text) => text.replaceAll("\0", "").replace(/[\r\n]/g, " "));
  const comments = texts.map((text) => `// ${text}\n`).join("");
  const user = '<img src=x onerror="alert(1)">'.padEnd(253, "W");
  await objects.create(
    clusterPolicy(name, comments + forbid("image", name), "Audit"),
    clusterPolicy(`${name}-broken`, `forbid(principal, action, resource) when { "${texts[0]?.replaceAll('"', "'")}" `),
    quotaPolicy(name, { runningJobs: 40 }, { requester: user }),
  );
  await waitForActive("clusterjobpolicy", `${name}-broken`, undefined, "False");
  const { page } = await dashboard({ path: "/policies" });
  await expect(card(page, "Quota policies")).toContainText(user.slice(0, 100));
  await checkPageInBothSizes(page);
  for (const kind of ["ClusterJobPolicy", "QuotaPolicy"]) {
    await goTo(page, `/policies/${name}?kind=${kind}`);
    await expect(card(page, kind)).toBeVisible();
    await checkPageInBothSizes(page);
  }
  await goTo(page, `/policies/${name}?kind=ClusterJobPolicy`);
  const text = card(page, "Text");
  const more = text.getByRole("button", { name: "more" });
  for (let clicks = 0; clicks < 20 && (await more.count()) > 0; clicks += 1) await more.click();
  const shown = (await text.locator("pre").textContent()) ?? "";
  for (const own of texts.filter((own) => isPlain(own) && own.length < 200)) expect(shown.includes(own), own).toBe(true);
  await checkPageInBothSizes(page);
});
