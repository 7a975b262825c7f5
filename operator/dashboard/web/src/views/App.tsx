import { useEffect, useState } from "preact/hooks";

import { queueFreshness } from "../app/live/freshness";
import { refusal } from "../app/live/store";
import { announcement, toast } from "../app/page/announce";
import { page, query, search } from "../app/page/route";
import { useArrival } from "../app/page/title";
import { Header } from "../parts/Header";
import { Help } from "../parts/Help";
import { Palette } from "../parts/Palette";
import { ProblemBanners } from "../parts/ProblemBanners";
import { Home } from "./Home";
import { Jobs } from "./Jobs";
import { LatePage } from "./LatePage";
import { NotFound } from "./NotFound";
import { Refused } from "./Refused";
import { useGlobalShortcuts } from "./global-shortcuts";

type Overlay = "help" | "palette" | undefined;

/** The whole page: head, banners, and the view that the URL names. */
export function App() {
  const [overlay, setOverlay] = useState<Overlay>(undefined);
  useGlobalShortcuts({
    openHelp: () => setOverlay("help"),
    openPalette: () => setOverlay("palette"),
  });
  useArrival();
  useEffect(() => {
    // Ctrl-K works while the user types, too.
    const onKey = (event: KeyboardEvent): void => {
      if (event.key !== "k" || !(event.ctrlKey || event.metaKey) || event.shiftKey || event.altKey) return;
      event.preventDefault();
      setOverlay((now) => (now === "palette" ? undefined : "palette"));
    };
    document.addEventListener("keydown", onKey);
    return () => document.removeEventListener("keydown", onKey);
  }, []);
  const close = (): void => setOverlay(undefined);
  return (
    <>
      <Header onHelp={() => setOverlay("help")} onPalette={() => setOverlay("palette")} />
      <main id="main" tabIndex={-1} class={queueFreshness.value.state === "stale" ? "is-stale" : undefined}>
        {refusal.value ? (
          <Refused problem={refusal.value} />
        ) : (
          <>
            <ProblemBanners />
            <CurrentView />
          </>
        )}
      </main>
      {overlay === "help" && <Help onClose={close} />}
      {overlay === "palette" && <Palette onClose={close} />}
      <LiveRegion />
    </>
  );
}

/** Another name is another view: nothing of the page before must stay on the screen. */
function CurrentView() {
  const current = page.value;
  switch (current.page) {
    case "home":
      return <Home />;
    case "jobs":
      return <Jobs isTimeline={query.value.get("view") === "timeline"} />;
    case "queues":
      return <LatePage show={({ Queues }) => <Queues />} />;
    case "queue":
      return <LatePage show={({ Queue }) => <Queue key={current.name} name={current.name} />} />;
    case "nodes":
      return <LatePage show={({ NodesView }) => <NodesView />} />;
    case "node":
      return <LatePage show={({ NodeView }) => <NodeView key={current.name} name={current.name} />} />;
    case "policies":
      return <LatePage show={({ Policies }) => <Policies />} />;
    case "policy":
      return <LatePage show={({ PolicyView }) => <PolicyView key={`${current.name}?${search.value}`} name={current.name} />} />;
    case "plan":
      return <LatePage show={({ Plan }) => <Plan />} />;
    case "whatIf":
      return <LatePage show={({ WhatIf }) => <WhatIf />} />;
    case "job":
      return <LatePage show={({ Job }) => <Job key={`${current.namespace}/${current.name}`} job={current} />} />;
    case "notFound":
      return <NotFound />;
  }
}

function LiveRegion() {
  return (
    <>
      <div class="hidden" role="status" aria-live="polite">
        {announcement.value}
      </div>
      {toast.value !== undefined && (
        <div class="toast" aria-hidden="true">
          {toast.value}
        </div>
      )}
    </>
  );
}
