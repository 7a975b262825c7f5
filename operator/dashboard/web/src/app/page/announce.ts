/** Messages for the live region, which screen readers speak, and for the short note on the screen. */

import { signal } from "@preact/signals";

/** The text of the live region. */
export const announcement = signal("");

/** The short note at the bottom of the screen. */
export const toast = signal<string | undefined>(undefined);

const TOAST_MS = 3_500;
let timer: ReturnType<typeof setTimeout> | undefined;

/** Speaks a text through the live region. */
export function announce(text: string): void {
  // The same text twice would not be spoken: the region must change.
  announcement.value = announcement.peek() === text ? `${text}\u00a0` : text;
}

/** Shows a note for some seconds, and speaks it. */
export function showToast(text: string): void {
  announce(text);
  toast.value = text;
  clearTimeout(timer);
  timer = setTimeout(() => {
    toast.value = undefined;
  }, TOAST_MS);
}
