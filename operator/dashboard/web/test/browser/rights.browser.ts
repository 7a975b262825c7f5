/** Each user sees with the page what the user sees with kubectl and `trellis`, and nothing else. */

import type { Page } from "@playwright/test";

import {
  TEAM_A,
  TEAM_B,
  TestObjects,
  countNodes,
  kubectl,
  kubectlAs,
  kubectlJson,
  trainingJob,
  trellisAs,
  uniqueName,
  waitForPhase,
} from "./support/cluster";
import { stable, without } from "./support/compare";
import type { UserName } from "./support/environment";
import type { DashboardServer } from "./support/server";
import { expect, test } from "./support/test";
import { card, goTo, jobRow, verdict } from "./support/views";

type Json = Readonly<Record<string, unknown>>;

/** Jobs of two teams: one of each runs, and one of each waits for the nodes of both. */
interface TwoTeams {
  readonly own: string;
  readonly ownWaiting: string;
  /** Part of the names of all objects of the other team. */
  readonly secret: string;
  readonly other: string;
  readonly otherWaiting: string;
}

async function createTwoTeams(objects: TestObjects): Promise<TwoTeams> {
  const [own, secret] = [uniqueName("own"), uniqueName("secret")];
  const jobs = { own, ownWaiting: `${own}-waiting`, secret, other: secret, otherWaiting: `${secret}-waiting` };
  const nodes = await countNodes(() => true);
  const text = { annotations: { "example.org/note": secret }, labels: { note: secret }, command: ["train", secret] };
  await objects.apply(trainingJob({ name: jobs.other, namespace: TEAM_B, gpus: 8, ...text }), trainingJob({ name: own, gpus: 1 }));
  await waitForPhase(TEAM_B, jobs.other, "Running");
  await waitForPhase(TEAM_A, own, "Running");
  await objects.apply(trainingJob({ name: jobs.otherWaiting, namespace: TEAM_B, pods: nodes, gpus: 8, ...text }));
  await waitForPhase(TEAM_B, jobs.otherWaiting, "Queued");
  await objects.apply(trainingJob({ name: jobs.ownWaiting, pods: nodes, gpus: 8 }));
  await waitForPhase(TEAM_A, jobs.ownWaiting, "Queued");
  return jobs;
}

/** The jobs are the same for all tests of this file. */
let teams: TwoTeams;
const shared = new TestObjects();

test.beforeAll(async () => {
  teams = await createTwoTeams(shared);
});

test.afterAll(() => shared.removeAll());

/** A route, and the command with the same content. */
interface Twin {
  readonly route: string;
  readonly command: readonly string[];
}

function twinsOf({ own, ownWaiting, other, otherWaiting }: TwoTeams): readonly Twin[] {
  const ofJob = (namespace: string, name: string): readonly Twin[] => [
    { route: `/api/jobs/${namespace}/${name}`, command: ["status", "-n", namespace, name] },
    { route: `/api/jobs/${namespace}/${name}/why`, command: ["explain", "-n", namespace, name] },
  ];
  return [
    { route: "/api/queue", command: ["queue"] },
    { route: `/api/queue?namespace=${TEAM_A}`, command: ["queue", "-n", TEAM_A] },
    { route: `/api/queue?namespace=${TEAM_B}`, command: ["queue", "-n", TEAM_B] },
    { route: "/api/nodes", command: ["nodes"] },
    ...ofJob(TEAM_A, own),
    ...ofJob(TEAM_A, ownWaiting),
    ...ofJob(TEAM_B, other),
    ...ofJob(TEAM_B, otherWaiting),
    ...ofJob(TEAM_A, "does-not-exist"),
    ...ofJob(TEAM_B, "does-not-exist"),
  ];
}

async function compareTwin(user: UserName, server: DashboardServer, { route, command }: Twin): Promise<string> {
  let outcome = "";
  await expect(async () => {
    const [answer, output] = await Promise.all([server.get(route), trellisAs(user, ...command, "-o", "json")]);
    const content = JSON.parse(answer.text) as Json;
    if (answer.status === 200) {
      expect(output.code, output.stderr).toBe(0);
      // `trellis nodes -o json` is a list. Only the page gets sentences, and the order of positions.
      const told = JSON.parse(output.stdout) as Json | readonly Json[];
      const own = Array.isArray(told) ? content["nodes"] : without(content, "answer", "ordered");
      expect(stable(own)).toEqual(stable(told));
    } else {
      const { error } = content as { readonly error: { readonly kind: string; readonly message: string } };
      expect(output.code).not.toBe(0);
      expect(output.stderr).toContain(error.message);
    }
    outcome = `${answer.status}`;
  }, `${user}: ${route} and \`trellis ${command.join(" ")}\` differ`).toPass({ timeout: 30_000 });
  return outcome;
}

/** What the routes of `twinsOf` answer, in their order. */
const OUTCOMES: Readonly<Record<Exclude<UserName, "revoked">, readonly string[]>> = {
  admin: ["200", "200", "200", "200", "200", "200", "200", "200", "200", "200", "200", "200", "404", "404", "404", "404"],
  viewer: ["200", "200", "403", "403", "200", "200", "200", "200", "403", "403", "403", "403", "404", "404", "403", "403"],
  editor: ["200", "200", "200", "403", "200", "200", "200", "200", "200", "200", "200", "200", "404", "404", "404", "404"],
  platform: ["200", "200", "200", "200", "200", "200", "200", "200", "200", "200", "200", "200", "404", "404", "404", "404"],
  stranger: ["403", "403", "403", "403", "403", "403", "403", "403", "403", "403", "403", "403", "403", "403", "403", "403"],
};

type Row = Json & { readonly metadata: Json };

/** Returns a row without what the page does not get: versions, and the kind, which is the same for all. */
function withoutVersions(row: Row): Json {
  return { ...without(row, "apiVersion", "kind"), metadata: without(row.metadata, "resourceVersion") };
}

for (const user of ["admin", "viewer", "editor", "platform", "stranger"] as const) {
  test(`each route gives ${user} what \`trellis\` gives`, async ({ serve }) => {
    const server = await serve(user);
    const outcomes: string[] = [];
    for (const twin of twinsOf(teams)) outcomes.push(await compareTwin(user, server, twin));
    expect(outcomes).toEqual(OUTCOMES[user]);
  });

  test(`the rows of ${user} are those that the API server gives`, async ({ serve }) => {
    const server = await serve(user);
    for (const [route, list, place] of [
      [`/api/queue?namespace=${TEAM_A}`, "jobs", `namespaces/${TEAM_A}/jobstates`],
      [`/api/queue?namespace=${TEAM_B}`, "jobs", `namespaces/${TEAM_B}/jobstates`],
      [`/api/attempts?namespace=${TEAM_A}`, "attempts", `namespaces/${TEAM_A}/endedattempts`],
      [`/api/attempts?namespace=${TEAM_B}`, "attempts", `namespaces/${TEAM_B}/endedattempts`],
      ["/api/queue", "queues", "queuestates"],
      ["/api/nodes", "nodes", "nodestates"],
    ] as const) {
      await expect(async () => {
        const [answer, output] = await Promise.all([
          server.get(route),
          kubectlAs(user, "get", "--raw", `/apis/visibility.trellis.dev/v1alpha1/${place}`),
        ]);
        const rows = (JSON.parse(answer.text) as Json)[list] ?? null;
        const items = output.code === 0 ? (JSON.parse(output.stdout) as { readonly items: readonly Json[] }).items : null;
        const bare = (all: unknown): unknown => stable((all as readonly Row[] | null)?.map(withoutVersions) ?? null);
        expect(bare(rows)).toEqual(bare(items));
      }, `${user}: ${route} and ${place} differ`).toPass({ timeout: 30_000 });
    }
  });

  test(`the session of ${user} has the name and the rights that the API server knows`, async ({ serve }) => {
    const server = await serve(user);
    const session = JSON.parse((await server.get("/api/session")).text) as Json;
    const review = await kubectlAs(user, "auth", "whoami", "-o", "json");
    const { status } = JSON.parse(review.stdout) as { readonly status: { readonly userInfo: { readonly username: string } } };
    const may = async (resource: string): Promise<boolean> =>
      (await kubectlAs(user, "auth", "can-i", "list", `${resource}.visibility.trellis.dev`, "-A")).code === 0;
    expect(session).toMatchObject({
      user: status.userInfo.username,
      mode: "local",
      namespace: TEAM_A,
      may: { allJobs: await may("jobstates"), queues: await may("queuestates"), nodes: await may("nodestates") },
    });
  });
}

/** Views that a user can open without knowing names of another team. */
function viewsOf({ own, ownWaiting }: TwoTeams): readonly string[] {
  return [
    "/",
    "/queue",
    "/queue?view=timeline",
    "/queues",
    "/queues/default",
    "/nodes",
    "/nodes?view=table",
    "/nodes/gpu-0",
    "/policies",
    "/policies/starter",
    `/jobs/${TEAM_A}/${own}`,
    `/jobs/${TEAM_A}/${ownWaiting}`,
  ];
}

/** Everything that the page shows or keeps, as one text. */
async function allOf(page: Page): Promise<string> {
  return page.evaluate(() =>
    [
      document.documentElement.outerHTML,
      document.title,
      JSON.stringify(history.state),
      JSON.stringify({ ...sessionStorage }),
      JSON.stringify({ ...localStorage }),
      document.cookie,
    ].join("\n"),
  );
}

test("a user of one namespace never gets the names of another, on no page, in no answer and in no storage", async ({
  dashboard,
  serve,
  objects,
}) => {
  const { page, faults } = await dashboard({ user: "viewer" });
  faults.allow(/status (of )?403/);
  const answers: Promise<string>[] = [];
  page.on("response", (response) => {
    if (new URL(response.url()).pathname !== "/api/stream") answers.push(response.text().catch(() => ""));
  });
  const seen: string[] = [];
  for (const view of viewsOf(teams)) {
    await goTo(page, view);
    await expect(page.getByRole("heading", { level: 1 })).toHaveCount(1);
    await page.waitForTimeout(1_500);
    seen.push(await allOf(page));
  }
  // The viewer's own job waits for the other team's nodes, so its explanation is about that team.
  await expect(verdict(page)).toContainText("Queued");
  await page.keyboard.press("Control+k");
  await page.getByRole("combobox", { name: /^Go to/ }).fill("secret");
  seen.push(await allOf(page));
  const all = [...seen, ...(await Promise.all(answers))].join("\n");
  expect(all).toContain(teams.own);
  expect(all).not.toContain(teams.secret);
  expect(all).not.toContain(TEAM_B);

  const server = await serve("viewer");
  const { version } = JSON.parse((await server.get("/api/queue")).text) as { readonly version: string };
  const reading = server.readStream(`/api/stream?queue=${version}&nodes=1`, 14_000);
  await objects.apply(trainingJob({ name: `${teams.own}-late` }), trainingJob({ name: `${teams.secret}-late`, namespace: TEAM_B }));
  const lines = (await reading).join("\n");
  expect(lines).toContain(`${teams.own}-late`);
  expect(lines).not.toContain(teams.secret);
  expect(lines).not.toContain(TEAM_B);
});

test("a user of both namespaces gets the names of both: the test above can fail", async ({ dashboard }) => {
  const { page, faults } = await dashboard({ user: "editor", path: `/queue?namespace=${TEAM_B}` });
  faults.allow(/status (of )?403/);
  await expect(jobRow(page, TEAM_B, teams.secret)).toBeVisible();
  await goTo(page, `/jobs/${TEAM_B}/${teams.secret}`);
  await expect(verdict(page)).toContainText("Running");
  expect(await allOf(page)).toContain(teams.secret);
});

test("the title names the only namespace that a user may list", async ({ dashboard }) => {
  const { page } = await dashboard({ user: "viewer", path: "/queue" });
  await expect(page.getByRole("heading", { level: 1 })).toHaveText(`Jobs of ${TEAM_A}`);
  await expect(jobRow(page, TEAM_A, teams.own)).toBeVisible();
});

test("a user of one namespace gets it without typing, and no other one is offered", async ({ dashboard, serve }) => {
  const server = await serve("viewer");
  const answer = JSON.parse((await server.get("/api/namespaces")).text) as { readonly namespaces: readonly object[] };
  expect(answer.namespaces).toEqual([{ name: TEAM_A, jobs: expect.any(Number) as unknown, maySubmit: false }]);
  const { page } = await dashboard({ user: "viewer", path: "/queue" });
  const offered = page.locator("datalist option");
  await expect(offered).toHaveCount(1);
  await expect(offered).toHaveAttribute("value", TEAM_A);
  expect(await page.evaluate(() => JSON.stringify(localStorage))).not.toContain(TEAM_A);
});

test("a user can type another namespace, is told why it is denied, and can go back", async ({ dashboard }) => {
  const { page, faults } = await dashboard({ user: "viewer", path: "/queue" });
  faults.allow(/status (of )?403/);
  await expect(jobRow(page, TEAM_A, teams.own)).toBeVisible();
  const field = page.getByRole("combobox", { name: "Namespace" });
  await field.fill(TEAM_B);
  await field.press("Enter");
  const main = page.getByRole("main");
  await expect(main).toContainText("jobstates.visibility.trellis.dev");
  await expect(main).toContainText(`namespace "${TEAM_B}"`);
  await expect(jobRow(page, TEAM_A, teams.own)).toHaveCount(0);
  await field.fill(TEAM_A);
  await field.press("Enter");
  await expect(jobRow(page, TEAM_A, teams.own)).toBeVisible();
});

test("a user without rights is told on each page which right is missing and which role has it", async ({ dashboard }) => {
  const { page, faults } = await dashboard({ user: "stranger", path: "/queue" });
  faults.allow(/status (of )?403/);
  for (const [view, right, role] of [
    ["/queue", "jobstates.visibility.trellis.dev", "trellis-view"],
    ["/", "jobstates.visibility.trellis.dev", "trellis-view"],
    ["/queue?view=timeline", "jobstates.visibility.trellis.dev", "trellis-view"],
    ["/queues", "jobstates.visibility.trellis.dev", "trellis-view"],
    ["/nodes", "nodestates.visibility.trellis.dev", "trellis-platform"],
    ["/nodes/gpu-0", "nodestates.visibility.trellis.dev", "trellis-platform"],
    ["/policies", "clusterjobpolicies.trellis.dev", "trellis-view"],
    [`/what-if?changes=${encodeURIComponent('[{"removeNode":{"name":"gpu-0"}}]')}`, "forecasts.visibility.trellis.dev", "trellis-platform"],
    [`/jobs/${TEAM_A}/${teams.own}`, "trainingjobs.trellis.dev", "trellis-view"],
  ] as const) {
    await goTo(page, view);
    await expect(page.getByRole("main"), view).toContainText(right);
    await expect(page.getByRole("main"), view).toContainText(role);
  }
  expect(await allOf(page)).not.toContain("sleep");
});

test("a user without the right to nodes is told so, and sees jobs and queues all the same", async ({ dashboard }) => {
  const { page, faults } = await dashboard({ user: "viewer", path: "/nodes" });
  faults.allow(/status (of )?403/);
  const main = page.getByRole("main");
  await expect(main).toContainText("nodestates.visibility.trellis.dev");
  await expect(main).toContainText("trellis-platform");
  await expect(main).toContainText("kubectl create clusterrole");
  await goTo(page, "/queue");
  await expect(jobRow(page, TEAM_A, teams.own)).toBeVisible();
});

/** Time within which data must be gone after a right is. */
const REVOKED_MS = 15_000;

/** Runs a part of a test without the RoleBinding of the user `revoked`. */
async function withoutRight(run: () => Promise<void>): Promise<void> {
  const binding = await kubectlJson<Json>("get", "rolebinding", "revoked", "-n", TEAM_A);
  const { roleRef, subjects } = binding as { readonly roleRef: { readonly name: string }; readonly subjects: readonly { readonly namespace: string; readonly name: string; readonly kind: string }[] };
  await kubectl("delete", "rolebinding", "revoked", "-n", TEAM_A);
  try {
    await run();
  } finally {
    const subject = subjects.map(({ kind, namespace, name }) => (kind === "ServiceAccount" ? `--serviceaccount=${namespace}:${name}` : `--user=${name}`));
    await kubectl("create", "rolebinding", "revoked", "-n", TEAM_A, `--clusterrole=${roleRef.name}`, ...subject);
  }
}

test("the list of jobs is empty soon after the right is taken away, and returns with the right", async ({ dashboard }) => {
  const { page, faults } = await dashboard({ user: "revoked", path: "/queue" });
  faults.allow(/status (of )?403/);
  await expect(jobRow(page, TEAM_A, teams.own)).toBeVisible();
  await withoutRight(async () => {
    const since = performance.now();
    await expect(page.getByText(teams.own)).toHaveCount(0, { timeout: REVOKED_MS });
    await expect(page.getByRole("main")).toContainText("jobstates.visibility.trellis.dev");
    expect(await allOf(page)).not.toContain(teams.own);
    expect(performance.now() - since).toBeLessThan(REVOKED_MS + 5_000);
  });
  await expect(async () => {
    await page.getByRole("button", { name: "Ask now" }).click({ timeout: 1_000 });
    await expect(jobRow(page, TEAM_A, teams.own)).toBeVisible({ timeout: 3_000 });
  }).toPass({ timeout: 30_000 });
});

test("the page of a job is empty soon after the right is taken away", async ({ dashboard }) => {
  const { page, faults } = await dashboard({ user: "revoked", path: `/jobs/${TEAM_A}/${teams.ownWaiting}` });
  faults.allow(/status (of )?403/);
  await expect(verdict(page)).toContainText("Queued");
  await expect(card(page, "Gang")).toBeVisible();
  await withoutRight(async () => {
    await expect(verdict(page)).toHaveCount(0, { timeout: REVOKED_MS });
    await expect(card(page, "Gang")).toHaveCount(0);
    await expect(page.getByRole("main")).toContainText("trellis-view");
    // The name is in the URL. Nothing else of the job may stay.
    expect(await page.getByRole("main").innerText()).not.toMatch(/InsufficientCapacity|nvidia|worker|Queued/);
  });
});
