/** A server with the page of `trellis dashboard` and data of a made-up cluster, for measurements. */

import { type Server, type ServerResponse, createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { constants, createGzip, gzipSync } from "node:zlib";

import { type Cluster, makeCluster, randomNumbers } from "../../draw/made-up";
import type { DashboardServer } from "./server";

/** Bytes that the server has sent, compressed. */
export interface SentBytes {
  /** Of whole lists. */
  lists: number;
  /** Of the stream. */
  stream: number;
  files: number;
}

/** How often the real server reads the jobs. */
const TICK_MS = 5_000;

/** Serves a made-up cluster whose jobs change. */
export class MadeUpServer {
  readonly sent: SentBytes = { lists: 0, stream: 0, files: 0 };
  /** Jobs that change in a second. */
  changesPerSecond = 0;
  readonly cluster: Cluster;
  private readonly random = randomNumbers(7);
  private readonly page: DashboardServer;
  private readonly server: Server;
  private version = 1;

  private constructor(page: DashboardServer, cluster: Cluster) {
    this.page = page;
    this.cluster = cluster;
    this.server = createServer((request, response) => {
      this.answer(request.url ?? "/", response).catch((error: unknown) => response.destroy(error as Error));
    });
  }

  /** Starts a server with the files of another. */
  static async start(page: DashboardServer, size: { readonly jobs: number; readonly nodes: number }): Promise<MadeUpServer> {
    const made = makeCluster({ nodes: size.nodes });
    const cluster = makeCluster({ nodes: size.nodes, waiting: Math.max(0, size.jobs - made.jobs.length + Math.ceil(size.nodes / 12)) });
    const server = new MadeUpServer(page, { ...cluster, jobs: cluster.jobs.slice(0, size.jobs) });
    await new Promise<void>((resolve) => server.server.listen(0, "127.0.0.1", resolve));
    return server;
  }

  get origin(): string {
    return `http://127.0.0.1:${(this.server.address() as AddressInfo).port}`;
  }

  async end(): Promise<void> {
    const closed = new Promise((resolve) => this.server.close(resolve));
    this.server.closeAllConnections();
    await closed;
  }

  private async answer(address: string, response: ServerResponse): Promise<void> {
    const { pathname } = new URL(address, this.origin);
    const time = new Date().toISOString();
    const { jobs, nodes, queues } = this.cluster;
    const head = { version: String(this.version), time, notes: [] };
    switch (pathname) {
      case "/api/open":
        return this.sendJson(response, { key: "made-up" });
      case "/api/session":
        return this.sendJson(response, {
          user: "ada@example.org",
          mode: "local",
          version: "0.0.0",
          context: "made-up",
          namespace: "ml",
          may: { allJobs: true, queues: true, nodes: true },
          time,
        });
      case "/api/queue":
        return this.sendJson(response, { ...head, ordered: true, jobs, queues });
      case "/api/nodes":
        return this.sendJson(response, { ...head, nodes });
      case "/api/attempts":
        return this.sendJson(response, { time, attempts: [] });
      case "/api/stream":
        return this.sendStream(address, response);
      default:
        return this.sendFile(address, response);
    }
  }

  private sendJson(response: ServerResponse, value: unknown): void {
    const body = gzipSync(JSON.stringify(value), { level: 1 });
    this.sent.lists += body.length;
    response.writeHead(200, { "Content-Type": "application/json", "Content-Encoding": "gzip", "Cache-Control": "no-store" });
    response.end(body);
  }

  private sendStream(address: string, response: ServerResponse): void {
    const hasNodes = new URL(address, this.origin).searchParams.has("nodes");
    response.writeHead(200, { "Content-Type": "application/x-ndjson", "Content-Encoding": "gzip", "Cache-Control": "no-store" });
    const gzip = createGzip({ level: 1 });
    gzip.on("data", (part: Buffer) => {
      this.sent.stream += part.length;
      response.write(part);
    });
    let ticks = 0;
    const tick = (): void => {
      ticks += 1;
      const time = new Date().toISOString();
      const jobs = this.changeJobs((this.changesPerSecond * TICK_MS) / 1_000);
      if (jobs.length > 0) this.version += 1;
      const lines = [{ list: "queue", version: String(this.version), time, ...(jobs.length > 0 && { jobs }) }];
      if (hasNodes && ticks % 2 === 0) lines.push({ list: "nodes", version: String(this.version), time });
      gzip.write(lines.map((line) => `${JSON.stringify(line)}\n`).join(""));
      gzip.flush(constants.Z_SYNC_FLUSH);
    };
    const timer = setInterval(tick, TICK_MS);
    response.on("close", () => clearInterval(timer));
    tick();
  }

  private changeJobs(count: number) {
    return Array.from({ length: count }, () => {
      const place = Math.floor(this.random() * this.cluster.jobs.length);
      const job = this.cluster.jobs[place];
      if (!job) throw new Error("the cluster has no jobs");
      const changed = { ...job, message: `needs ${Math.floor(this.random() * 64)} GPUs`, priority: Math.floor(this.random() * 4) };
      this.cluster.jobs[place] = changed;
      return changed;
    });
  }

  private async sendFile(address: string, response: ServerResponse): Promise<void> {
    const answer = await this.page.send(address);
    const { "content-type": type = "text/plain", "content-security-policy": policy = "" } = answer.headers;
    const body = gzipSync(answer.text);
    this.sent.files += body.length;
    response.writeHead(answer.status, { "Content-Type": type, "Content-Encoding": "gzip", "Content-Security-Policy": policy });
    response.end(body);
  }
}
