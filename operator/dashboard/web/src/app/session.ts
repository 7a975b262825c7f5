/** Opens the session: exchanges the code of the URL for the key, and asks who the user is. */

import type { Session } from "../wire";
import { noteServerTime } from "./clock";
import { get, post } from "./request";
import { keepKey, takeCode } from "./session-key";

/** Takes the code out of the URL and exchanges it for the key, if there is one. */
export async function exchangeCode(): Promise<void> {
  const code = takeCode();
  if (code === undefined) return;
  const { key } = await post<{ readonly key: string }>("/api/open", { code });
  keepKey(key);
}

/** Asks for the user, the cluster and the rights. */
export async function openSession(signal?: AbortSignal): Promise<Session> {
  const session = await get<Session>("/api/session", signal);
  noteServerTime(new Date(session.time));
  return session;
}
