/** Sends a request byte for byte: clients of HTTP add or refuse headers. */

import { connect } from "node:net";

const TIMEOUT_MS = 10_000;

/** Sends these lines as the head of a request, and returns the status of the answer. */
export function sendHead(origin: string, lines: readonly string[]): Promise<number> {
  const { hostname, port } = new URL(origin);
  return new Promise((resolve, reject) => {
    const socket = connect(Number(port), hostname);
    let answer = "";
    socket.setTimeout(TIMEOUT_MS, () => socket.destroy(new Error(`no answer to ${lines.join(" | ")}`)));
    socket.setEncoding("latin1");
    socket.on("connect", () => socket.write([...lines, "Connection: close", "", ""].join("\r\n")));
    socket.on("data", (text: string) => (answer += text));
    socket.on("error", reject);
    socket.on("close", () => {
      const status = /^HTTP\/1\.1 (\d{3})/.exec(answer)?.[1];
      if (status === undefined) reject(new Error(`no HTTP answer to ${lines.join(" | ")}: ${answer.slice(0, 200)}`));
      else resolve(Number(status));
    });
  });
}
