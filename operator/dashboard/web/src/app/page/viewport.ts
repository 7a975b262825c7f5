/** The visible part of the page, once a frame. */

import { signal } from "@preact/signals";

/** Scroll position and height of the window, in pixels. */
export const viewport = signal({ top: 0, height: 800 });

/** True on a narrow screen. Unlike `viewport`, it does not change while the user scrolls. */
export const isNarrow = signal(false);

/** Width below which rows become cards. `style/job-table.css` has the same number. */
const NARROW = "(max-width: 760px)";

let isPlanned = false;

/** Starts to follow scrolling and resizing. */
export function startViewport(): void {
  const narrow = matchMedia(NARROW);
  const read = (): void => {
    isPlanned = false;
    viewport.value = { top: scrollY, height: innerHeight };
    isNarrow.value = narrow.matches;
  };
  const plan = (): void => {
    if (isPlanned) return;
    isPlanned = true;
    requestAnimationFrame(read);
  };
  read();
  addEventListener("scroll", plan, { passive: true });
  addEventListener("resize", plan);
  narrow.addEventListener("change", plan);
}
