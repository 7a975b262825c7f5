import { vi } from "vitest";

/** Lets messages of other tabs arrive, and then lets the time-out of a question pass. Timers must be fake. */
export async function passTimeout(): Promise<void> {
  for (let turn = 0; turn < 50; turn += 1) await new Promise((resolve) => setImmediate(resolve));
  vi.advanceTimersByTime(300);
}
