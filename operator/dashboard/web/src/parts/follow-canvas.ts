/** Keeps a canvas as large as its frame, and its colours those of the theme. */

import { effect } from "@preact/signals";

import { theme } from "../app/look/theme";
import type { Size } from "../draw/base/geometry";
import { themeOf, type Theme } from "../draw/base/theme";

/** Reports the size of an element, in CSS pixels, whenever it or the pixel ratio changes. */
export function followSize(element: HTMLElement, report: (size: Size) => void): () => void {
  const read = (): void => report({ width: element.clientWidth, height: element.clientHeight });
  const observer = new ResizeObserver(read);
  observer.observe(element);
  // Another pixel ratio comes without another size, for example on another screen.
  const ratio = matchMedia(`(resolution: ${devicePixelRatio}dppx)`);
  ratio.addEventListener("change", read);
  return () => {
    observer.disconnect();
    ratio.removeEventListener("change", read);
  };
}

/** Reports the colours of an element, now and when the theme of the page or of the system changes. */
export function followTheme(element: HTMLElement, report: (theme: Theme) => void): () => void {
  const read = (): void => report(themeOf(element));
  const system = ["(forced-colors: active)", "(prefers-contrast: more)"].map((text) => matchMedia(text));
  for (const list of system) list.addEventListener("change", read);
  let frame = 0;
  const stop = effect(() => {
    void theme.value;
    // The attribute of the document changes in an effect of its own, which may run after this one.
    frame = requestAnimationFrame(read);
  });
  read();
  return () => {
    stop();
    cancelAnimationFrame(frame);
    for (const list of system) list.removeEventListener("change", read);
  };
}
