/** Opens the session: gets the key by the code of the URL or from another tab, and asks who the user is. */

import type { Session } from "../../wire/cluster";
import { noteServerTime } from "./clock";
import { askTabs } from "./key-sharing";
import { OPEN_PATH, RequestError, get, post } from "./request";
import { isRejected, keepKey, readKey, rejectKey, takeCode } from "./session-key";

/** True after the server has answered without a key: in a cluster, pages have none. */
let needsNoKey = false;

/** Takes the code out of the URL and exchanges it for the key, if there is one. */
export async function exchangeCode(): Promise<void> {
  const code = takeCode();
  if (code === undefined) return;
  try {
    const { key } = await post<{ readonly key: string }>(OPEN_PATH, { code });
    keepKey(key);
  } catch (error) {
    // The link is too old, but this tab has a key already.
    if (isKeyRefusal(error) && readKey() !== undefined) return;
    throw error;
  }
}

/** True if the server asks for a key, or for another one. */
export function isKeyRefusal(error: unknown): error is RequestError {
  return error instanceof RequestError && error.kind === "key";
}

/** Asks for the user, the cluster and the rights. */
export async function openSession(signal?: AbortSignal): Promise<Session> {
  const key = readKey();
  const session = await get<Session>("/api/session", signal);
  if (key === undefined) needsNoKey = true;
  noteServerTime(new Date(session.time));
  return session;
}

/** Asks the other tabs for a key, after the server has refused this tab. Returns false if none has one. */
export async function borrowKey(): Promise<boolean> {
  if (needsNoKey) return false;
  const own = readKey();
  if (own !== undefined) rejectKey(own);
  const key = await askTabs((other) => !isRejected(other));
  if (key !== undefined) keepKey(key);
  return key !== undefined;
}
