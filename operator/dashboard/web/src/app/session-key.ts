/** The key of local mode, which this tab sends with each request. */

const STORAGE_KEY = "trellis-key";

let memory: string | undefined;

/** Returns the key. Undefined: cluster mode, or the page was opened without a code. */
export function readKey(): string | undefined {
  if (memory !== undefined) return memory;
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

/** Takes the single-use code out of the URL, so that it is in no history and no copied link. */
export function takeCode(): string | undefined {
  const code = new URLSearchParams(location.hash.slice(1)).get("code");
  if (code === null) return undefined;
  history.replaceState(history.state, "", location.pathname + location.search);
  return code;
}
