/** The title of the document, and the arrival on a page: focus and scroll position. */

import { useEffect, useLayoutEffect } from "preact/hooks";

import { cleanLine } from "../text/clean";
import { arrival, path } from "./route";

/** Sets the title of the document while a page is mounted. */
export function useTitle(title: string): void {
  useEffect(() => {
    document.title = `${cleanLine(title)} · Trellis`;
  }, [title]);
}

/** Moves the focus to the heading of a new page, and scrolls to where the user was or to the top. */
export function useArrival(): void {
  const { by, scroll } = arrival.value;
  const place = path.value;
  useLayoutEffect(() => {
    scrollTo(0, by === "link" ? 0 : scroll);
    if (by !== "load") focusHeading();
  }, [arrival.value, place]);
}

/** Moves the focus to the heading of the page, so that a screen reader speaks it. */
export function focusHeading(): void {
  const heading = document.querySelector("main h1");
  if (!(heading instanceof HTMLElement)) return;
  heading.tabIndex = -1;
  heading.focus({ preventScroll: true });
}
