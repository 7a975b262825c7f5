/** Requests to the server of this page. */

import type { WireError } from "../../wire/cluster";
import { noteServerTime } from "./clock";
import { readKey, rejectKey } from "./session-key";

/** Exchanges the code of a link for a key. */
export const OPEN_PATH = "/api/open";

/** Time after which a request without an answer is given up. */
const TIMEOUT_MS = 30_000;

/** A request that has failed, with the server's reason. */
export class RequestError extends Error implements WireError {
  override readonly name = "RequestError";
  readonly kind: string;
  /** Seconds that the server asks to wait. */
  readonly retryAfter: number | undefined;

  constructor(kind: string, message: string, retryAfter?: number) {
    super(message);
    this.kind = kind;
    this.retryAfter = retryAfter;
  }
}

/** Gets JSON. The caller names the type of the answer. */
export async function get<Answer>(path: string, signal?: AbortSignal): Promise<Answer> {
  return readAnswer<Answer>(await send(path, { signal: limited(signal) }));
}

/** Posts JSON. The caller names the type of the answer. */
export async function post<Answer>(path: string, body: unknown, signal?: AbortSignal): Promise<Answer> {
  const response = await send(path, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
    signal: limited(signal),
  });
  return readAnswer<Answer>(response);
}

function limited(signal: AbortSignal | undefined): AbortSignal {
  const limit = AbortSignal.timeout(TIMEOUT_MS);
  return signal ? AbortSignal.any([signal, limit]) : limit;
}

async function readAnswer<Answer>(response: Response): Promise<Answer> {
  try {
    return (await response.json()) as Answer;
  } catch (error) {
    if (!(error instanceof SyntaxError)) throw asRequestError(error);
    throw new RequestError("internal", "The server has sent an answer that is no JSON.");
  }
}

/** Sends a request with the key. A failure is a RequestError, except an abort by the caller. */
export async function send(path: string, init: RequestInit): Promise<Response> {
  const headers = new Headers(init.headers);
  const key = path === OPEN_PATH ? undefined : readKey();
  if (key !== undefined) headers.set("Trellis-Key", key);
  let response: Response;
  try {
    response = await fetch(path, { ...init, headers, cache: "no-store", redirect: "error" });
  } catch (error) {
    throw asRequestError(error);
  }
  const date = response.headers.get("Date");
  if (date !== null) noteServerTime(new Date(date));
  if (response.ok) return response;
  const error = await readError(response);
  if (error.kind === "key" && key !== undefined) rejectKey(key);
  throw error;
}

/** Returns what was thrown as the error of a request. Anything else is a fault of this page, which the console shows. */
export function toRequestError(thrown: unknown): RequestError {
  if (thrown instanceof RequestError) return thrown;
  console.error(thrown);
  return new RequestError("internal", String(thrown));
}

/** Returns a failure of the network in the words of this page. An abort by the caller stays as it is. */
export function asRequestError(error: unknown): unknown {
  if (error instanceof RequestError) return error;
  if (error instanceof DOMException && error.name === "AbortError") return error;
  if (error instanceof DOMException && error.name === "TimeoutError") {
    return new RequestError("unavailable", "The server of this page has not answered in time.");
  }
  return new RequestError("offline", "The server of this page cannot be reached.");
}

async function readError(response: Response): Promise<RequestError> {
  const wait = Number(response.headers.get("Retry-After") ?? Number.NaN);
  const retryAfter = Number.isFinite(wait) ? wait : undefined;
  try {
    const body: unknown = await response.json();
    const error = readWireError(body);
    if (error) return new RequestError(error.kind, error.message, retryAfter);
  } catch {
    // A proxy may answer in HTML.
  }
  const kind = KIND_OF_STATUS[response.status] ?? "internal";
  return new RequestError(kind, `The server answered with HTTP status ${response.status}.`, retryAfter);
}

/** Kinds of errors that come from a proxy, without a body of the server. */
const KIND_OF_STATUS: Readonly<Record<number, string>> = {
  401: "unauthorized",
  403: "denied",
  404: "notFound",
  429: "busy",
  502: "unreachable",
  503: "unavailable",
  504: "unavailable",
};

function readWireError(body: unknown): WireError | undefined {
  if (typeof body !== "object" || body === null || !("error" in body)) return undefined;
  const { error } = body;
  if (typeof error !== "object" || error === null) return undefined;
  if (!("kind" in error) || !("message" in error)) return undefined;
  return { kind: String(error.kind), message: String(error.message) };
}
