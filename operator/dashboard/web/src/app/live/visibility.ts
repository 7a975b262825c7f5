/** Watches whether this tab is visible. A hidden tab makes no requests. */

/** Time after which a hidden tab drops its stream. */
const HIDDEN_MS = 30_000;

let isAsleep = false;
const waiting: (() => void)[] = [];

/** Calls `onHidden` when the tab has been hidden for 30 seconds. */
export function watchVisibility(onHidden: () => void): void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const update = (): void => {
    clearTimeout(timer);
    if (document.hidden) {
      timer = setTimeout(() => {
        isAsleep = true;
        onHidden();
      }, HIDDEN_MS);
      return;
    }
    isAsleep = false;
    for (const resolve of waiting.splice(0)) resolve();
  };
  document.addEventListener("visibilitychange", update);
  update();
}

/** Returns at once while the tab is in use, else when the user comes back to it. */
export function whenShown(): Promise<void> {
  return isAsleep ? new Promise((resolve) => waiting.push(resolve)) : Promise.resolve();
}
