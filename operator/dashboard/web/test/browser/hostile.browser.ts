/** Text of the cluster is shown as text: it never becomes markup, a link, a request or a script. */

import type { Page } from "@playwright/test";

import { TEAM_A, type TestObjects, kubectl, trainingJob, trellisJson, uniqueName, waitForPhase } from "./support/cluster";
import { HOSTILE_TEXTS, LONG_TEXT, forbiddenIn, isPlain, markOf } from "./support/hostile";
import { expect, test } from "./support/test";
import { checkPage, checkPageInBothSizes, findProblems } from "./support/text-only";
import { card, goTo, inOneLine, verdict } from "./support/views";

/** Creates a job with one pod for each hostile text. */
async function createPods(objects: TestObjects): Promise<string> {
  const name = uniqueName("hostile");
  const job = trainingJob({ name, pods: HOSTILE_TEXTS.length, gpus: 0, cpu: "50m", memory: "16Mi" });
  await objects.apply(job);
  await waitForPhase(TEAM_A, name, "Running");
  return name;
}

/** Writes a part of the status of a pod, as its kubelet does. */
async function patchPod(name: string, status: unknown): Promise<void> {
  await kubectl("patch", "pod", name, "-n", TEAM_A, "--subresource=status", "--type=strategic", "-p", JSON.stringify({ status }));
}

/** What the page shows of a text in one line: a text with line breaks is cut to its last line by the server. */
const isOneLine = (text: string): boolean => isPlain(text) && !text.includes("\n");

test("hostile annotations, labels, commands and variables of a job are shown as text", async ({ dashboard, objects }) => {
  const name = uniqueName("hostile");
  await objects.create(
    trainingJob({
      name,
      pods: 1,
      annotations: {
        ...Object.fromEntries(HOSTILE_TEXTS.map((text, place) => [`example.org/${markOf(place)}`, text])),
        "example.org/long": LONG_TEXT,
      },
      labels: { constructor: "constructor", "example.org/toString": "valueOf", "example.org/hasOwnProperty": "true" },
      command: ["sh", "-c", ...HOSTILE_TEXTS.filter((text) => !text.includes("\0"))],
      env: HOSTILE_TEXTS.map((value, place) => ({ name: `H${place}`, value: value.replaceAll("\0", "") })),
    }),
  );
  await waitForPhase(TEAM_A, name, "Running");
  const { page } = await dashboard({ path: `/jobs/${TEAM_A}/${name}` });
  await expect(verdict(page)).toContainText("Running");
  await page.getByText("YAML", { exact: true }).click();
  const yaml = page.locator("details pre");
  await expect(yaml).toContainText("apiVersion");
  // The rest of a long text is behind a button.
  const more = page.locator("details").getByRole("button", { name: "more" });
  for (let clicks = 0; clicks < 20 && (await more.count()) > 0; clicks += 1) await more.click();
  const shown = (await yaml.textContent()) ?? "";
  for (const [place, text] of HOSTILE_TEXTS.entries()) {
    const mark = markOf(place);
    const count = shown.split(mark).length - 1;
    expect(count, `${mark} is in the key and the text of an annotation, in the command and in a variable`).toBeGreaterThan(2);
    // YAML quotes and escapes some texts. Others stand there as they are.
    if (/^[ !#-&(-[\]-~]*$/.test(text)) expect(shown.includes(text), text).toBe(true);
  }
  expect(shown.includes(LONG_TEXT.slice(0, 1_000))).toBe(true);
  await checkPageInBothSizes(page);
});

test("hostile messages of pods are shown as text", async ({ dashboard, objects }) => {
  const name = await createPods(objects);
  for (const [place, text] of HOSTILE_TEXTS.entries()) {
    const waiting = { reason: "CreateContainerError", message: text };
    const container = { name: "main", image: "x", imageID: "", restartCount: 0, ready: false, state: { waiting, running: null } };
    const pod = `${name}-worker-${place}`;
    const [own = "main"] = (await kubectl("get", "pod", pod, "-n", TEAM_A, "-o", "jsonpath={.spec.containers[*].name}")).split(" ");
    await patchPod(pod, { containerStatuses: [{ ...container, name: own }] });
  }
  const { page } = await dashboard({ path: `/jobs/${TEAM_A}/${name}` });
  const gang = card(page, "Gang");
  await expect(gang.getByRole("table", { name: "Pods that failed or are stuck" })).toBeVisible();
  for (const [place, text] of HOSTILE_TEXTS.entries()) {
    await gang.getByRole("button", { name: new RegExp(`^Rank ${place},`) }).click();
    const line = page.getByRole("region", { name: `Rank ${place}` }).locator("pre");
    await expect(line, `rank ${place}`).toHaveCount(1);
    const more = line.getByRole("button", { name: "more" });
    if ((await more.count()) > 0) await more.click();
    const shown = (await line.textContent()) ?? "";
    if (isOneLine(text)) expect(shown).toBe(text);
    else if (!text.includes("\n")) expect(shown).toContain(markOf(place));
    expect(forbiddenIn(shown)).toBeUndefined();
  }
  await checkPageInBothSizes(page);
});

test("the hostile last line of a failed pod is shown as text", async ({ dashboard, objects }) => {
  const name = uniqueName("hostile");
  await objects.apply(trainingJob({ name }));
  await waitForPhase(TEAM_A, name, "Running");
  const line = HOSTILE_TEXTS[0] ?? "";
  const annotations = { "test.trellis.dev/last-words": line, "test.trellis.dev/exit": "1" };
  await kubectl("patch", "pod", `${name}-worker-0`, "-n", TEAM_A, "-p", JSON.stringify({ metadata: { annotations } }));
  await waitForPhase(TEAM_A, name, "Failed");
  const { page } = await dashboard({ path: `/jobs/${TEAM_A}/${name}` });
  await expect(card(page, "Attempts")).toContainText(line);
  await checkPageInBothSizes(page);
});

/** Events of one job that the page shows at once. */
const EVENTS_AT_ONCE = 9;

test("hostile notes of events are shown as text", async ({ dashboard, objects }) => {
  const name = uniqueName("hostile");
  await objects.apply(trainingJob({ name }));
  await waitForPhase(TEAM_A, name, "Running");
  const uid = await kubectl("get", "trainingjob", name, "-n", TEAM_A, "-o", "jsonpath={.metadata.uid}");
  const { page } = await dashboard({ path: `/jobs/${TEAM_A}/${name}` });
  for (let first = 0; first < HOSTILE_TEXTS.length; first += EVENTS_AT_ONCE) {
    const texts = HOSTILE_TEXTS.slice(first, first + EVENTS_AT_ONCE);
    await objects.create(...texts.map((note, place) => eventOf({ name, uid, note, mark: markOf(first + place) })));
    await page.reload();
    const notes = card(page, "Events").getByRole("listitem");
    for (const [place, note] of texts.entries()) {
      const mark = markOf(first + place);
      const item = notes.filter({ has: page.getByText(`Reason-${mark}`, { exact: true }) });
      await expect(item, note).toHaveCount(1);
      const more = item.getByRole("button", { name: "more" });
      if ((await more.count()) > 0) await more.click();
      const shown = (await item.locator("p").last().textContent()) ?? "";
      if (isOneLine(note)) expect(inOneLine(shown)).toBe(note);
      else expect(shown).toContain(mark);
    }
    await checkPage(page);
  }
  await checkPageInBothSizes(page);
});

function eventOf(options: { readonly name: string; readonly uid: string; readonly note: string; readonly mark: string }) {
  const { name, uid, note, mark } = options;
  return {
    apiVersion: "events.k8s.io/v1",
    kind: "Event",
    metadata: { name: `${name}.${mark}`, namespace: TEAM_A },
    regarding: { apiVersion: "trellis.dev/v1alpha1", kind: "TrainingJob", namespace: TEAM_A, name, uid },
    reason: `Reason-${mark}`,
    note,
    type: "Warning",
    action: "Test",
    eventTime: new Date().toISOString().replace("Z", "000Z"),
    reportingController: "example.org/test",
    reportingInstance: "test",
  };
}

test("hostile names of users are shown as text in each list", async ({ dashboard, objects }) => {
  // Names without control characters: a header of HTTP takes them.
  const users = HOSTILE_TEXTS.filter((text) => isOneLine(text) && text.length < 200).slice(0, 40).filter((_, place) => place % 3 === 0);
  const names = users.map(() => uniqueName("hostile"));
  for (const [place, user] of users.entries()) {
    const job = trainingJob({ name: names[place] ?? "", pods: 1, gpus: 8, nodeSelector: { "example.org/none": "none" } });
    await objects.createAs(user, job);
  }
  interface Row {
    readonly metadata: { readonly name: string };
    readonly user?: string;
  }
  const readUsers = async (): Promise<readonly (string | undefined)[]> => {
    const { jobs } = await trellisJson<{ readonly jobs: readonly Row[] }>("queue", "-n", TEAM_A);
    return jobs.filter(({ metadata }) => names.includes(metadata.name)).map((row) => row.user).toSorted();
  };
  // The scheduler knows a job some time before its user.
  await expect.poll(readUsers, { timeout: 20_000 }).toEqual(users.toSorted());
  const { page } = await dashboard({ path: "/queue" });
  for (const [place, user] of users.entries()) {
    const row = page.getByRole("row").filter({ has: page.getByRole("link", { name: `${TEAM_A}/${names[place]}`, exact: true }) });
    await expect(row.getByRole("cell").nth(2)).toHaveText(user);
  }
  for (const path of ["/queue", "/queue?view=timeline", "/queues/default", "/", `/queue?user=${encodeURIComponent(users[0] ?? "")}`]) {
    await goTo(page, path);
    await expect(page.getByRole("heading", { level: 1 })).toHaveCount(1);
    await page.waitForTimeout(700);
    await checkPageInBothSizes(page);
  }
});

/** Paths with the same text in each place where a URL of the page may have one. */
const URL_PLACES: readonly ((encoded: string) => string)[] = [
  (text) => `/queue?text=${text}&q=${text}&state=${text}&namespace=${text}&user=${text}&sort=${text}`,
  (text) => `/queue?view=timeline&at=${text}&from=${text}&to=${text}`,
  (text) => `/queues/${text}`,
  (text) => `/queues?open=${text}`,
  (text) => `/nodes?fit=${text}&by=${text}&at=${text}&job=${text}&queue=${text}&zoom=${text}`,
  (text) => `/nodes/${text}`,
  (text) => `/policies?namespace=${text}`,
  (text) => `/policies/${text}?kind=${text}`,
  (text) => `/what-if?changes=${text}`,
  (text) => `/what-if?changes=${encodeURIComponent(JSON.stringify([{ removeNode: { name: decodeURIComponent(text) } }]))}`,
  (text) => `/${text}`,
];

/** Each path gets each third text, and each text is in a third of the paths: all of both take minutes. */
const isTried = (text: number, path: number): boolean => (text + path) % 3 === 0;

/** Opens pages with texts in their URLs, and returns all problems. */
async function findUrlProblems(page: Page, texts: readonly string[]): Promise<readonly string[]> {
  const problems: string[] = [];
  for (const [place, text] of texts.entries()) {
    const encoded = encodeURIComponent(text);
    for (const path of URL_PLACES.filter((_, number) => isTried(place, number)).map((toPath) => toPath(encoded))) {
      await goTo(page, path);
      await expect(page.getByRole("heading", { level: 1 })).toHaveCount(1);
      problems.push(...(await findProblems(page)).map((problem) => `${path.replaceAll(encoded, "TEXT")}: ${problem}`));
    }
  }
  return problems;
}

const URL_TEXTS = HOSTILE_TEXTS.filter((text) => text.isWellFormed() && text.length < 200);

test("hostile text in the URL is shown as text", async ({ dashboard }) => {
  const { page, faults } = await dashboard({ path: "/queue" });
  // A namespace that is no name is refused, and a node of a forecast that does not exist.
  faults.allow(/status (of )?40[04]/);
  expect(await findUrlProblems(page, URL_TEXTS.filter((text) => forbiddenIn(text) === undefined))).toEqual([]);
  await goTo(page, `/jobs/${encodeURIComponent("<img src=x onerror=alert(1)>")}/${encodeURIComponent("javascript:alert(1)")}`);
  await expect(page.getByRole("heading", { level: 1 })).toHaveText("javascript:alert(1)");
  await checkPageInBothSizes(page);
});

test("control characters and marks of direction in the URL are not on the page and not in its title", async ({ dashboard }) => {
  const { page, faults } = await dashboard({ path: "/queue" });
  faults.allow(/status (of )?400/);
  expect(await findUrlProblems(page, URL_TEXTS.filter((text) => forbiddenIn(text) !== undefined))).toEqual([]);
});
