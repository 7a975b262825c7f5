/** What a page must never do. Each is a fault, and fails the test. */

import type { BrowserContext, Page, Request } from "@playwright/test";

/** The faults of the pages of one browser context. */
export class FaultLog {
  private readonly faults: string[] = [];
  private readonly allowed: RegExp[] = [];

  /** Expects a fault that the test brings about. The patterns are as narrow as possible. */
  allow(...patterns: readonly RegExp[]): void {
    this.allowed.push(...patterns);
  }

  add(fault: string): void {
    this.faults.push(fault);
  }

  /** Returns the faults that no test has allowed. */
  unexpected(): readonly string[] {
    return this.faults.filter((fault) => !this.allowed.some((pattern) => pattern.test(fault)));
  }
}

/** Notes the faults of all pages of a context. `origin` is the only one that pages may ask. */
export async function watchContext(context: BrowserContext, origin: string, log: FaultLog): Promise<void> {
  // The console has violations of the Content Security Policy, too, but not those of each kind.
  await context.addInitScript(() => {
    document.addEventListener("securitypolicyviolation", (event) => {
      console.error(`CSP report: ${event.effectiveDirective} ${event.blockedURI} ${event.sample}`);
    });
  });
  context.on("console", (message) => {
    if (message.type() === "error") log.add(`console: ${message.text()} (${message.location().url})`);
  });
  context.on("weberror", (thrown) => {
    const error = thrown.error();
    log.add(`script: ${error.stack ?? error.message}`);
  });
  context.on("request", (request) => {
    const address = new URL(request.url());
    const isOwn = address.origin === origin || address.protocol === "data:";
    if (!isOwn) log.add(`request to another origin: ${request.method()} ${request.url()}`);
  });
  context.on("requestfailed", (request) => {
    const reason = request.failure()?.errorText ?? "";
    if (!isAborted(request, reason)) log.add(`request failed: ${request.method()} ${request.url()}: ${reason}`);
  });
  context.on("response", (response) => {
    if (response.status() >= 400) log.add(`status ${response.status()}: ${response.request().method()} ${response.url()}`);
  });
  context.on("page", (page) => watchPage(page, log));
}

function watchPage(page: Page, log: FaultLog): void {
  page.on("dialog", (dialog) => {
    log.add(`dialog: ${dialog.type()} ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.on("popup", (popup) => log.add(`popup: ${popup.url()}`));
  page.on("download", (download) => log.add(`download: ${download.url()}`));
  page.on("websocket", (socket) => log.add(`websocket: ${socket.url()}`));
  page.on("crash", () => log.add("the page has crashed"));
}

/**
 * The page gives up a stream when it follows other lists, and a read when the user leaves the view. The
 * browser gives up the icon, which it loads last, when a test reloads the page at once.
 */
function isAborted(request: Request, reason: string): boolean {
  const { pathname } = new URL(request.url());
  return reason === "net::ERR_ABORTED" && (pathname.startsWith("/api/") || pathname === "/icon.svg");
}
