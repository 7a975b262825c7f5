/** Requests that the server refuses: of another host, of another origin, without a key, and malformed. */

import { trainingJob, uniqueName } from "./support/cluster";
import { sendHead } from "./support/raw-http";
import type { DashboardServer, ServerAnswer } from "./support/server";
import { expect, test } from "./support/test";
import { expectData, jobRow } from "./support/views";

/** All routes with data. */
const ROUTES = [
  "/api/session",
  "/api/queue",
  "/api/queue?namespace=team-a",
  "/api/nodes",
  "/api/attempts",
  "/api/attempts?namespace=team-a",
  "/api/namespaces",
  "/api/policies",
  "/api/policies?namespace=team-a",
  "/api/jobs/team-a/some-job",
  "/api/jobs/team-a/some-job/why",
  "/api/stream?queue=1",
] as const;

/** Routes that read a body. */
const POSTS = ["/api/open", "/api/plan", "/api/what-if"] as const;

const FILES = ["/", "/queue", "/policies", "/jobs/team-a/some-job", "/app.js", "/app.css", "/icon.svg"] as const;

interface ErrorAnswer {
  readonly error: { readonly kind: string; readonly message: string };
}

function errorOf(answer: ServerAnswer): ErrorAnswer["error"] {
  return (JSON.parse(answer.text) as ErrorAnswer).error;
}

/** Starts a server whose link has been opened, and returns the headers of the page. */
async function opened(serve: (user: "admin") => Promise<DashboardServer>) {
  const server = await serve("admin");
  const headers = { "Trellis-Key": await server.open(), Origin: server.origin, "Sec-Fetch-Site": "same-origin" };
  return { server, headers };
}

test("a request that names another host is refused on each path, and the answer says why", async ({ serve }) => {
  const { server, headers } = await opened(serve);
  const { port } = new URL(server.origin);
  const hosts = [
    "evil.example",
    `evil.example:${port}`,
    "localhost.evil",
    `localhost.evil:${port}`,
    `127.0.0.1.evil.example:${port}`,
    `evil.example@127.0.0.1:${port}`,
    "192.168.1.1",
    "[::2]",
    "0.0.0.0",
    "",
  ];
  for (const host of hosts) {
    for (const path of ["/api/session", "/api/open", "/", "/app.js"]) {
      const answer = await server.send(path, { headers: { ...headers, Host: host } });
      expect(answer.status, `${path} with host "${host}"`).toBe(421);
      expect(errorOf(answer).message).toContain("--public-url");
    }
  }
});

test("a request without a host, with two hosts, or with the URL of another host is refused", async ({ serve }) => {
  const { server } = await opened(serve);
  const { host } = new URL(server.origin);
  // HTTP/1.1 wants exactly one host (RFC 9112, 3.2).
  expect([400, 421]).toContain(await sendHead(server.origin, ["GET / HTTP/1.1"]));
  expect([400, 421]).toContain(await sendHead(server.origin, ["GET / HTTP/1.1", `Host: ${host}`, "Host: evil.example"]));
  expect([400, 421]).toContain(await sendHead(server.origin, ["GET / HTTP/1.1", "Host: evil.example", `Host: ${host}`]));
  expect(await sendHead(server.origin, ["GET / HTTP/1.1", `Host: ${host}`])).toBe(200);
});

test("the loopback names open the page under any port, as a tunnel needs it", async ({ serve }) => {
  const { server } = await opened(serve);
  for (const host of ["127.0.0.1", "localhost", "localhost:9999", "LOCALHOST:1", "[::1]:8080"]) {
    expect((await server.send("/", { headers: { Host: host } })).status, host).toBe(200);
  }
});

test("a request of another origin is refused, also with the key", async ({ serve }) => {
  const { server, headers } = await opened(serve);
  const { port } = new URL(server.origin);
  const foreign: Record<string, string>[] = [
    { Origin: "http://evil.example" },
    { Origin: `http://localhost:${Number(port) + 1}` },
    { Origin: `http://127.0.0.1:${Number(port) + 1}` },
    { Origin: `https://127.0.0.1:${port}` },
    { Origin: `http://localhost:${port}` },
    { Origin: "null" },
    { "Sec-Fetch-Site": "cross-site" },
    { "Sec-Fetch-Site": "same-site" },
    { "Sec-Fetch-Site": "none" },
    { Origin: "http://evil.example", "Sec-Fetch-Site": "same-origin" },
    { Origin: server.origin, "Sec-Fetch-Site": "cross-site" },
  ];
  for (const other of foreign) {
    for (const route of ROUTES) {
      const answer = await server.send(route, { headers: { "Trellis-Key": headers["Trellis-Key"], ...other } });
      expect(answer.status, `${route} ${JSON.stringify(other)}`).toBe(403);
      expect(errorOf(answer).kind).toBe("origin");
    }
    for (const route of POSTS) {
      const post = { "Trellis-Key": headers["Trellis-Key"], "Content-Type": "application/json", ...other };
      const answer = await server.send(route, { method: "POST", headers: post, body: "{}" });
      expect(answer.status, `${route} ${JSON.stringify(other)}`).toBe(403);
    }
  }
  const own = await server.send("/api/session", { headers });
  expect(own.status).toBe(200);
});

test("no answer permits another origin anything", async ({ serve }) => {
  const { server, headers } = await opened(serve);
  for (const path of [...ROUTES, "/api/open", ...FILES]) {
    if (path.startsWith("/api/stream")) continue;
    const preflight = { Origin: "http://evil.example", "Access-Control-Request-Method": "GET", "Access-Control-Request-Headers": "trellis-key" };
    for (const answer of [
      await server.send(path, { method: "OPTIONS", headers: preflight }),
      await server.send(path, { headers }),
    ]) {
      const permits = Object.keys(answer.headers).filter((name) => name.startsWith("access-control-"));
      expect(permits, path).toEqual([]);
    }
    expect((await server.send(path, { method: "OPTIONS", headers: preflight })).status, path).toBeGreaterThanOrEqual(400);
  }
});

test("each route without the key is refused, and the answer says what to do", async ({ serve }) => {
  const { server, headers } = await opened(serve);
  const key = headers["Trellis-Key"];
  const wrong: readonly Record<string, string>[] = [
    {},
    { "Trellis-Key": "" },
    { "Trellis-Key": server.code },
    { "Trellis-Key": "0".repeat(64) },
    { "Trellis-Key": key.slice(1) },
    { "Trellis-Key": key.toUpperCase() === key ? `${key}0` : key.toUpperCase() },
    { Authorization: `Bearer ${key}` },
    { Cookie: `trellis-key=${key}` },
  ];
  for (const route of ROUTES) {
    for (const other of wrong) {
      const answer = await server.send(route, { headers: other });
      expect(answer.status, `${route} ${JSON.stringify(other)}`).toBe(401);
      expect(errorOf(answer)).toEqual({ kind: "key", message: expect.stringContaining("trellis dashboard") });
    }
    const own = { Origin: server.origin, "Content-Type": "application/json" };
    expect((await server.send("/api/plan", { method: "POST", headers: own, body: `{"yaml": ""}` })).status).toBe(401);
    expect((await server.send("/api/what-if", { method: "POST", headers: own, body: `{"changes": []}` })).status).toBe(401);
    const inUrl = `${route}${route.includes("?") ? "&" : "?"}key=${key}`;
    expect((await server.send(inUrl)).status, inUrl).toBe(401);
  }
});

test("the key of one server does not open another", async ({ serve }) => {
  const { headers } = await opened(serve);
  const other = await serve("viewer");
  await other.open();
  const answer = await other.send("/api/session", { headers: { "Trellis-Key": headers["Trellis-Key"] } });
  expect(answer.status).toBe(401);
});

test("an unknown code gives no key, and voids none", async ({ serve }) => {
  const { server, headers } = await opened(serve);
  for (const code of ["", "guess", "0".repeat(64), server.code.slice(1)]) {
    expect((await server.exchange(code)).status, code).toBe(401);
  }
  expect((await server.send("/api/session", { headers })).status).toBe(200);
});

test("a code that is used twice gives no second key, and voids the first", async ({ serve }) => {
  const { server, headers } = await opened(serve);
  expect((await server.send("/api/session", { headers })).status).toBe(200);
  const second = await server.exchange(server.code);
  expect(second.status).toBe(401);
  expect(errorOf(second).message).toContain("opened before");
  for (const route of ROUTES) expect((await server.send(route, { headers })).status, route).toBe(401);
  await server.takeWarning("opened a second time");
});

test("the first page loses its data when its link is opened a second time", async ({ dashboard, objects }) => {
  const name = uniqueName();
  await objects.apply(trainingJob({ name }));
  const { page, server, faults } = await dashboard({ path: "/queue" });
  faults.allow(/status (of )?401/);
  await expect(jobRow(page, "team-a", name)).toBeVisible();
  expect((await server.exchange(server.code)).status).toBe(401);
  await server.takeWarning("opened a second time");
  await expect(page.getByText(name)).toHaveCount(0, { timeout: 20_000 });
  await expect(page.getByRole("main")).toContainText("trellis dashboard");
});

test("a browser without the link says what to do, and shows no data", async ({ dashboard, browser }) => {
  const { server } = await dashboard({ path: "/queue" });
  const context = await browser.newContext();
  const page = await context.newPage();
  await page.goto(`${server.origin}/queue`);
  await expect(page.getByRole("main")).toContainText("This page is locked");
  await expect(page.getByRole("main")).toContainText("trellis dashboard");
  await expect(page.getByRole("row")).toHaveCount(0);
  await context.close();
});

test("a new tab of the same browser gets the key from the first one", async ({ dashboard }) => {
  const { page, context, faults } = await dashboard({ path: "/queue" });
  await expectData(page);
  // The new tab learns from the server that it needs a key.
  faults.allow(/status (of )?401/);
  const tab = await context.newPage();
  await tab.goto(`${new URL(page.url()).origin}/queue`);
  await expectData(tab);
  expect(await tab.evaluate(() => JSON.stringify({ ...localStorage, cookie: document.cookie }))).not.toMatch(/[0-9a-f]{64}/);
});

test("each route answers one method alone", async ({ serve }) => {
  const { server, headers } = await opened(serve);
  const json = { ...headers, "Content-Type": "application/json" };
  for (const method of ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND"]) {
    for (const route of ROUTES) {
      const answer = await server.send(route, { method, headers: json, body: "{}" });
      expect(answer.status, `${method} ${route}`).toBe(405);
    }
    for (const file of FILES) expect((await server.send(file, { method, headers: json, body: "{}" })).status, `${method} ${file}`).toBe(405);
  }
  for (const method of ["GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS"]) {
    for (const route of POSTS) expect((await server.send(route, { method, headers: json })).status, `${method} ${route}`).toBe(405);
  }
  // The code of the link is still unused by all of this: the server answers as before.
  expect((await server.send("/api/session", { headers })).status).toBe(200);
});

test("a path that is no route and no file is not found", async ({ serve }) => {
  const { server, headers } = await opened(serve);
  for (const path of [
    "/api",
    "/api/",
    "/api/secrets",
    "/api/jobs",
    "/api/jobs/team-a",
    "/api/jobs/team-a/x/why/more",
    "/api/../etc/passwd",
    "/..%2f..%2fetc%2fpasswd.txt",
    "/app.js.map",
    "/index.php",
  ]) {
    const answer = await server.send(path, { headers });
    const isPage = answer.status === 200 && answer.text.startsWith("<!doctype html>");
    expect(answer.status === 404 || (isPage && !path.startsWith("/api/")), `${path}: ${answer.status}`).toBe(true);
  }
});

test("names that are no names of objects never become part of a path of the API server", async ({ serve }) => {
  const { server } = await opened(serve);
  for (const name of ["..", ".", "a%2F..%2Fsecrets", "%2E%2E", "a%3Fwatch=1", "A", "a%20b", "a%00b", "x".repeat(300)]) {
    for (const path of [`/api/jobs/team-a/${name}`, `/api/jobs/${name}/job`, `/api/jobs/team-a/${name}/why`]) {
      const answer = await server.get(path);
      expect([400, 404], `${path}: ${answer.status} ${answer.text}`).toContain(answer.status);
    }
  }
});

test("a namespace that is no name of an object never becomes part of a path of the API server", async ({ serve }) => {
  const { server } = await opened(serve);
  for (const namespace of ["..%2F..%2F..%2Fapi%2Fv1%2Fsecrets%3F", "a%2Fb", "team-a%2Fjobstates%3Flimit%3D1%26x%3D", "..", "A", "%0d%0a", "x".repeat(300)]) {
    for (const path of [`/api/queue?namespace=${namespace}`, `/api/attempts?namespace=${namespace}`, `/api/policies?namespace=${namespace}`, `/api/stream?queue=1&namespace=${namespace}`]) {
      const answer = await server.get(path);
      expect([400, 404], `${path}: ${answer.status} ${answer.text}`).toContain(answer.status);
    }
  }
});

test("unknown parameters of a query are refused", async ({ serve }) => {
  const { server } = await opened(serve);
  for (const path of ["/api/queue?other=1", "/api/attempts?other=1", "/api/policies?other=1", "/api/stream", "/api/stream?queue=x", "/api/stream?queue=1.5", "/api/stream?queue=1&other=1"]) {
    expect((await server.get(path)).status, path).toBe(400);
  }
});

test("a body that is too large is refused, and the server goes on", async ({ serve }) => {
  const { server, headers } = await opened(serve);
  for (const [route, field] of [["/api/open", "code"], ["/api/plan", "yaml"], ["/api/what-if", "changes"]] as const) {
    const body = JSON.stringify({ [field]: "x".repeat(300 << 10) });
    const answer = await server.send(route, { method: "POST", headers: { ...headers, "Content-Type": "application/json" }, body });
    expect([400, 413], route).toContain(answer.status);
  }
  expect((await server.send("/api/session", { headers })).status).toBe(200);
});

test("a body that is not JSON is refused: a form of another origin cannot send JSON", async ({ serve }) => {
  const server = await serve("admin");
  const body = JSON.stringify({ code: server.code });
  for (const type of ["text/plain", "text/plain; application/json", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""]) {
    const headers = { Origin: server.origin, "Content-Type": type };
    const answer = await server.send("/api/open", { method: "POST", headers, body });
    expect(answer.status, type).toBe(400);
    expect(errorOf(answer).message, type).toContain("JSON");
  }
  for (const wrong of ["", "{", "[]", "null", `{"code": 1}`, `{"code": "a", "more": 1}`, `{"code": null}`]) {
    const headers = { Origin: server.origin, "Content-Type": "application/json" };
    expect((await server.send("/api/open", { method: "POST", headers, body: wrong })).status, wrong).toBe(400);
  }
  // None of this has used the code.
  const key = await server.open();
  const headers = { Origin: server.origin, "Content-Type": "text/plain", "Trellis-Key": key };
  expect((await server.send("/api/plan", { method: "POST", headers, body: `{"yaml": ""}` })).status).toBe(400);
  expect((await server.send("/api/what-if", { method: "POST", headers, body: `{"changes": []}` })).status).toBe(400);
});

test("a text for a plan that grows when it is read is refused soon, and the server goes on", async ({ serve }) => {
  const { server, headers } = await opened(serve);
  const letters = [..."abcdefghi"];
  const bomb = letters.map((letter, place) => `${letter}: &${letter} [${Array(9).fill(place === 0 ? "x" : `*${letters[place - 1]}`).join(", ")}]`);
  const deep = `a: ${"[".repeat(50_000)}`;
  for (const yaml of [bomb.join("\n"), deep, "\u0000", "&a [*a]"]) {
    const started = performance.now();
    const answer = await server.send("/api/plan", { method: "POST", headers: { ...headers, "Content-Type": "application/json" }, body: JSON.stringify({ yaml }) });
    expect(answer.status, yaml.slice(0, 40)).toBeLessThan(500);
    expect(performance.now() - started, yaml.slice(0, 40)).toBeLessThan(10_000);
  }
  expect((await server.send("/api/session", { headers })).status).toBe(200);
});

test("a text for a plan with very deep lists does not end the server", async ({ serve }) => {
  const { server, headers } = await opened(serve);
  const body = JSON.stringify({ yaml: "- ".repeat(60_000) });
  const answer = await server.send("/api/plan", { method: "POST", headers: { ...headers, "Content-Type": "application/json" }, body });
  expect(answer.status).toBeLessThan(500);
  expect((await server.send("/api/session", { headers })).status).toBe(200);
});

test("headers that are too large are refused, and the server goes on", async ({ serve }) => {
  const { server, headers } = await opened(serve);
  const answer = await server.send("/api/session", { headers: { ...headers, "X-Large": "x".repeat(1 << 20) } }).catch(() => undefined);
  if (answer) expect([400, 413, 431]).toContain(answer.status);
  expect((await server.send("/api/session", { headers })).status).toBe(200);
});

test("each answer has the headers that confine the page", async ({ serve }) => {
  const { server, headers } = await opened(serve);
  const answers: readonly (readonly [string, ServerAnswer])[] = [
    ...(await Promise.all(FILES.map(async (file) => [file, await server.send(file)] as const))),
    ["/api/session", await server.send("/api/session", { headers })],
    ["/api/queue", await server.send("/api/queue", { headers })],
    ["/api/nodes", await server.send("/api/nodes", { headers })],
    ["no key", await server.send("/api/session")],
    ["not found", await server.send("/api/none", { headers })],
    ["method", await server.send("/api/session", { method: "DELETE", headers: { ...headers, "Content-Type": "application/json" } })],
    ["host", await server.send("/", { headers: { Host: "evil.example" } })],
    ["origin", await server.send("/api/session", { headers: { ...headers, Origin: "http://evil.example" } })],
    ["body", await server.send("/api/open", { method: "POST", headers, body: "x" })],
  ];
  const policy = [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self' data:",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
  ];
  for (const [what, answer] of answers) {
    const { headers: got } = answer;
    const directives = String(got["content-security-policy"]).split(";").map((directive) => directive.trim());
    expect(directives.toSorted(), what).toEqual(policy.toSorted());
    expect(got, what).toMatchObject({
      "x-content-type-options": "nosniff",
      "referrer-policy": "no-referrer",
      "cross-origin-opener-policy": "same-origin",
      "cross-origin-resource-policy": "same-origin",
    });
    expect(got["set-cookie"], what).toBeUndefined();
    const isData = what.startsWith("/api/") || ["no key", "not found", "origin", "body"].includes(what);
    expect(got["cache-control"], what).toBe(isData ? "no-store" : what.startsWith("/") ? "no-cache" : got["cache-control"]);
    if (isData) expect(got["content-type"], what).toBe("application/json");
  }
});

test("the page has no script and no style in its HTML, and loads its own files alone", async ({ serve }) => {
  const { server } = await opened(serve);
  const { text } = await server.send("/");
  expect(text).not.toMatch(/<style|\sstyle=|\son\w+=|javascript:/i);
  expect(text.match(/<script[^>]*>/g)).toEqual([expect.stringMatching(/src="\/app\.js"/)]);
  for (const [, address] of text.matchAll(/(?:src|href)="([^"]*)"/g)) expect(address).toMatch(/^\/[a-z.]+$/);
});
