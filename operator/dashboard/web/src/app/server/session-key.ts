/** The key of local mode, which this tab sends with each request. */

const STORAGE_KEY = "trellis-key";

let memory: string | undefined;

/** Keys that the server has refused. A key is valid for one run of the server, so it stays void. */
const rejected = new Set<string>();

/** Returns the key. Undefined: cluster mode, a refused key, or the page was opened without a code. */
export function readKey(): string | undefined {
  const key = memory ?? readStored();
  return key !== undefined && isRejected(key) ? undefined : key;
}

function readStored(): string | undefined {
  try {
    return sessionStorage.getItem(STORAGE_KEY) ?? undefined;
  } catch {
    return undefined;
  }
}

/** Keeps the key for this tab. sessionStorage, unlike a cookie, belongs to one port. */
export function keepKey(key: string): void {
  memory = key;
  try {
    sessionStorage.setItem(STORAGE_KEY, key);
  } catch {
    // The key then lasts until the page is reloaded.
  }
}

/** Notes that the server refuses a key, and forgets the key. */
export function rejectKey(key: string): void {
  rejected.add(key);
  if (memory === key) memory = undefined;
  if (readStored() === key) sessionStorage.removeItem(STORAGE_KEY);
}

/** True if the server has refused this key. */
export function isRejected(key: string): boolean {
  return rejected.has(key);
}

/** Takes the single-use code out of the URL, so that it is in no history and no copied link. */
export function takeCode(): string | undefined {
  const code = new URLSearchParams(location.hash.slice(1)).get("code");
  if (code === null) return undefined;
  history.replaceState(history.state, "", location.pathname + location.search);
  return code;
}
