import { useEffect, useMemo } from "preact/hooks";

import { follow, session } from "../app/live/store";
import { buildRows } from "../draw/timeline/rows";
import type { JobState } from "../wire/cluster";
import { TimelineCanvas } from "./timeline/TimelineCanvas";
import { TimelineLegend } from "./timeline/TimelineLegend";

/** Jobs over time: what runs, until when, and what is foreseen to start. The table of jobs has the same rows. */
export function TimelineView({ jobs }: { readonly jobs: readonly JobState[] }) {
  const mayListNodes = session.value?.may.nodes === true;
  useEffect(() => (mayListNodes ? follow("nodes") : undefined), [mayListNodes]);
  const rows = useMemo(() => buildRows(jobs), [jobs]);
  return (
    <div class="timeline drawing">
      <TimelineCanvas rows={rows} />
      <TimelineLegend />
    </div>
  );
}
