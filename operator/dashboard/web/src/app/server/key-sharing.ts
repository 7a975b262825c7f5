/**
 * Passes the key between the tabs of one origin.
 *
 * A tab that was opened by Ctrl-click has an empty sessionStorage, so it asks the other tabs. An
 * origin includes the port: only pages of the same server hear the question and the answer.
 */

const CHANNEL = "trellis-key";

/** Time within which another tab must answer. */
const TIMEOUT_MS = 300;

const QUESTION = "key?";

/** Answers other tabs while `readKey` returns a key. Returns the function that ends this. */
export function answerTabs(readKey: () => string | undefined): () => void {
  const channel = new BroadcastChannel(CHANNEL);
  channel.onmessage = ({ data }: MessageEvent<unknown>) => {
    if (data !== QUESTION) return;
    const key = readKey();
    if (key !== undefined) channel.postMessage({ key });
  };
  return () => channel.close();
}

/** Asks the other tabs for their key. Undefined: no tab has answered in time with a key that `accepts` takes. */
export function askTabs(accepts: (key: string) => boolean): Promise<string | undefined> {
  return new Promise((resolve) => {
    const channel = new BroadcastChannel(CHANNEL);
    const end = (key?: string): void => {
      clearTimeout(timer);
      channel.close();
      resolve(key);
    };
    const timer = setTimeout(end, TIMEOUT_MS);
    channel.onmessage = ({ data }: MessageEvent<unknown>) => {
      const key = readAnswer(data);
      if (key !== undefined && accepts(key)) end(key);
    };
    channel.postMessage(QUESTION);
  });
}

/** A key is sent as a header, so it must be short and printable. */
function readAnswer(data: unknown): string | undefined {
  if (typeof data !== "object" || data === null || !("key" in data)) return undefined;
  const { key } = data;
  return typeof key === "string" && /^[\x21-\x7e]{1,256}$/.test(key) ? key : undefined;
}
