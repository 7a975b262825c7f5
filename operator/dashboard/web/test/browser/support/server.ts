/** A running `trellis dashboard`, and requests to it without a browser. */

import { type ChildProcess, spawn } from "node:child_process";
import { type IncomingHttpHeaders, type IncomingMessage, request as httpRequest } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";

import { kubeconfigOf } from "./cluster";
import { type UserName, environment } from "./environment";

/** An answer of the server. */
export interface ServerAnswer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
}

/** A request. `Host` is that of the server, unless the headers say another. */
export interface ServerRequest {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
}

/** A user that a test has created. */
export interface Kubeconfig {
  readonly kubeconfig: string;
}

const START_MS = 20_000;
const STOP_MS = 10_000;
const WARNING_MS = 5_000;

/** `trellis dashboard` as one user. */
export class DashboardServer {
  /** The link that the program has printed. It opens the page once. */
  readonly link: string;
  /** Standard error, which should stay empty. */
  readonly stderr: string[];
  private readonly child: ChildProcess;
  private key: string | undefined;

  private constructor(child: ChildProcess, link: string, stderr: string[]) {
    this.child = child;
    this.link = link;
    this.stderr = stderr;
  }

  /** Starts the program and reads its link. */
  static async start(user: UserName | Kubeconfig, path: string): Promise<DashboardServer> {
    const kubeconfig = typeof user === "string" ? await kubeconfigOf(user) : user.kubeconfig;
    const child = spawn(environment.trellis, ["dashboard", path, "--no-browser"], {
      env: { ...process.env, KUBECONFIG: kubeconfig, NO_COLOR: "1" },
      // Not a terminal, so that no key press creates another link.
      stdio: ["pipe", "pipe", "pipe"],
    });
    const stderr: string[] = [];
    child.stderr.setEncoding("utf8").on("data", (text: string) => stderr.push(text));
    try {
      return new DashboardServer(child, await readLink(child, stderr), stderr);
    } catch (error) {
      child.kill("SIGKILL");
      throw error;
    }
  }

  /** The origin of the page: `http://127.0.0.1:PORT`. */
  get origin(): string {
    return new URL(this.link).origin;
  }

  /** The code of the link. */
  get code(): string {
    const code = new URLSearchParams(new URL(this.link).hash.slice(1)).get("code");
    if (code === null) throw new Error(`the link has no code: ${this.link}`);
    return code;
  }

  /** Sends a request without a key. */
  send(path: string, options: ServerRequest = {}): Promise<ServerAnswer> {
    return new Promise((resolve, reject) => {
      const { hostname, port } = new URL(this.origin);
      // As an option, the path is sent as it is. Within a URL, `..` would be resolved here.
      const request = httpRequest({ hostname, port, path, method: options.method ?? "GET" });
      if (options.body !== undefined) request.setHeader("Content-Length", Buffer.byteLength(options.body));
      // `setHeader` takes an empty value, too.
      for (const [name, value] of Object.entries(options.headers ?? {})) request.setHeader(name, value);
      request.on("error", reject);
      request.on("response", (response) => {
        readText(response).then(
          (text) => resolve({ status: response.statusCode ?? 0, headers: response.headers, text }),
          reject,
        );
      });
      request.end(options.body);
    });
  }

  /** Exchanges the code of the link for a key, as the page does. */
  async open(): Promise<string> {
    const answer = await this.exchange(this.code);
    if (answer.status !== 200) throw new Error(`the link does not open the page: ${answer.text}`);
    this.key = (JSON.parse(answer.text) as { readonly key: string }).key;
    return this.key;
  }

  /** Sends a code. */
  exchange(code: string): Promise<ServerAnswer> {
    return this.send("/api/open", {
      method: "POST",
      headers: { "Content-Type": "application/json", Origin: this.origin },
      body: JSON.stringify({ code }),
    });
  }

  /** Sends a request with the key. */
  async get(path: string): Promise<ServerAnswer> {
    const key = this.key ?? (await this.open());
    return this.send(path, { headers: { "Trellis-Key": key } });
  }

  /** Reads a stream for some time, and returns its lines. */
  async readStream(path: string, milliseconds: number): Promise<readonly string[]> {
    const key = this.key ?? (await this.open());
    return new Promise((resolve, reject) => {
      const request = httpRequest(this.origin + path, { headers: { "Trellis-Key": key } });
      request.on("error", reject);
      request.on("response", (response) => {
        let text = "";
        response.setEncoding("utf8").on("data", (part: string) => (text += part));
        setTimeout(() => {
          response.removeAllListeners("error").on("error", () => undefined);
          request.removeAllListeners("error").on("error", () => undefined);
          request.destroy();
          resolve(text.split("\n").filter((line) => line !== ""));
        }, milliseconds);
      });
      request.end();
    });
  }

  /** Waits for a warning on standard error that the test brings about. */
  async takeWarning(text: string): Promise<void> {
    const end = performance.now() + WARNING_MS;
    while (!this.stderr.join("").includes(text)) {
      if (performance.now() > end) throw new Error(`no warning "${text}" but: ${this.stderr.join("")}`);
      await sleep(50);
    }
    this.stderr.length = 0;
  }

  /** Ends the program, as Ctrl-C does. */
  async end(): Promise<void> {
    if (this.child.exitCode !== null || this.child.signalCode !== null) return;
    const ended = new Promise((resolve) => this.child.once("exit", resolve));
    this.child.kill("SIGINT");
    const timer = setTimeout(() => this.child.kill("SIGKILL"), STOP_MS);
    await ended;
    clearTimeout(timer);
  }
}

function readLink(child: ChildProcess, stderr: readonly string[]): Promise<string> {
  return new Promise((resolve, reject) => {
    let output = "";
    const fail = (why: string): void => reject(new Error(`trellis dashboard ${why}: ${stderr.join("")}${output}`));
    const timer = setTimeout(() => fail("has printed no link"), START_MS);
    child.on("error", (error) => fail(`cannot be started (${error.message})`));
    child.on("exit", (code) => fail(`has ended with ${code}`));
    child.stdout?.setEncoding("utf8").on("data", (text: string) => {
      output += text;
      const link = /^Open (http:\/\/127\.0\.0\.1:\d+\/\S*#code=\S+)$/m.exec(output)?.[1];
      if (link === undefined) return;
      clearTimeout(timer);
      resolve(link);
    });
  });
}

async function readText(response: IncomingMessage): Promise<string> {
  let text = "";
  for await (const part of response.setEncoding("utf8")) text += part as string;
  return text;
}
