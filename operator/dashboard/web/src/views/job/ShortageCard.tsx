import { formatAmount, parseQuantity } from "../../app/text/format";
import { SegmentBar } from "../../parts/Bar";
import { Card, type Fact, Facts } from "../../parts/Card";
import { Name, Text } from "../../parts/Text";
import { JobLink, QueueLink } from "../../parts/links";
import type { Quantity } from "../../wire/cluster";
import type { Shortage } from "../../wire/job";

/** The numbers of what the job lacks. The terms are those of `trellis explain`. */
export function ShortageCard({ shortage }: { readonly shortage: Shortage }) {
  const resource = shortage.resource ?? "";
  const text = (term: string, value: string | undefined): Fact | undefined =>
    value === undefined ? undefined : { term, value: <Text text={value} max={200} /> };
  const amount = (term: string, value: Quantity | undefined): Fact | undefined =>
    value === undefined ? undefined : { term, value: formatAmount(resource, value) };
  const count = (term: string, value: number | undefined): Fact | undefined =>
    value === undefined ? undefined : { term, value: String(value) };
  return (
    <Card title="Shortage">
      <ShortageBar shortage={shortage} />
      <Facts
        facts={[
          amount("needed", shortage.needs),
          amount("missing", shortage.missing),
          amount("free", shortage.free),
          amount("used", shortage.used),
          amount("maximum", shortage.most),
          amount("held by jobs", shortage.heldByJobs),
          amount("held by other pods", shortage.heldByOthers),
          count("on nodes", shortage.nodes),
          count("pods", shortage.pods),
          count("room for", shortage.room),
          text("resource", shortage.resource),
          text("flavor", shortage.flavor),
          text("task group", shortage.taskGroup),
          shortage.queue !== undefined && { term: "quota of queue", value: <QueueLink name={shortage.queue} /> },
          text("limit", shortage.limit),
          text("level", shortage.level),
          text("domain", shortage.domain),
          shortage.behind && { term: "blocked by", value: <JobLink job={shortage.behind} /> },
          shortage.behindPriority !== undefined && {
            term: "blocked by",
            value: `a job that you may not see, priority ${shortage.behindPriority}`,
          },
        ]}
      />
    </Card>
  );
}

/** What is needed: the part that is free, and the part that is missing. */
function ShortageBar({ shortage }: { readonly shortage: Shortage }) {
  const needs = parseQuantity(shortage.needs);
  const missing = parseQuantity(shortage.missing);
  if (needs === undefined || missing === undefined || needs <= 0) return null;
  const resource = shortage.resource ?? "";
  const show = (value: number): string => formatAmount(resource, String(value));
  const lacks = Math.min(missing, needs);
  return (
    <div class="shortage">
      <SegmentBar
        noun="unit"
        segments={[
          { name: "can have", count: needs - lacks, kind: "good" },
          { name: "missing", count: lacks, kind: "bad" },
        ]}
      />
      <p class="shortage-text">
        <span>
          {show(needs - lacks)} of {show(needs)} <Name text={resource} />
        </span>
        <span class="shortage-missing">{show(lacks)} missing</span>
      </p>
    </div>
  );
}
