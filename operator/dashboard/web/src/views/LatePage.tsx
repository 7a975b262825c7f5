import { signal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";

import { arrival } from "../app/page/route";
import { focusHeading } from "../app/page/title";
import { Banner, Loading } from "../parts/Banner";

/** The pages of pages.js. */
type Pages = typeof import("./pages");

const pages = signal<Pages | undefined>(undefined);
const hasFailed = signal(false);

async function load(): Promise<void> {
  try {
    pages.value = await import("./pages");
  } catch {
    hasFailed.value = true;
  }
}

/** A page of pages.js, which is loaded when the first of them is opened. */
export function LatePage({ show }: { readonly show: (pages: Pages) => JSX.Element }) {
  const isLoaded = pages.value !== undefined;
  const wasLoaded = useRef(isLoaded);
  useEffect(() => {
    if (!pages.peek()) void load();
  }, []);
  useLayoutEffect(() => {
    // The heading did not exist when the user arrived.
    if (isLoaded && !wasLoaded.current && arrival.peek().by !== "load") focusHeading();
  }, [isLoaded]);
  if (pages.value) return show(pages.value);
  if (!hasFailed.value) {
    return (
      <div class="page">
        <Loading rows={8} />
      </div>
    );
  }
  const reload = (
    <button type="button" class="button" onClick={() => location.reload()}>
      Reload
    </button>
  );
  return (
    <div class="page">
      <Banner tone="warning" title="This page could not be loaded" action={reload}>
        The server has ended, or has another version now.
      </Banner>
    </div>
  );
}
