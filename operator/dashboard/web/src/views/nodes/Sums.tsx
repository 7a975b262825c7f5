import { countOf, formatCount } from "../../app/text/format";
import { POD_SIZES, type DeviceSums } from "../../draw/node/devices";
import { holesBySize, largestGangs, type Hole } from "../../draw/node/holes";
import { Name } from "../../parts/Text";
import { fitQuery, mainDevice, sortedNodes, sums } from "./model";

/** The sums of `trellis nodes`, the free devices by hole, and the largest gangs that start now. */
export function Sums() {
  if (sums.value.length === 0) return <p class="dim">These nodes have no devices.</p>;
  return (
    <>
      {sums.value.map((sum) => (
        <DeviceSection key={sum.device} sum={sum} />
      ))}
      <Holes />
      <LargestGangs />
    </>
  );
}

interface Part {
  readonly label: string;
  readonly count: number;
  readonly title: string;
  readonly sample?: string;
}

function DeviceSection({ sum }: { readonly sum: DeviceSums }) {
  const parts: readonly Part[] = [
    { label: "All", count: sum.total, title: "Devices that pods may use" },
    { label: "Jobs", count: sum.jobs, title: "Devices that jobs hold", sample: "jobs" },
    { label: "Others", count: sum.others, title: "Devices that pods of no job hold", sample: "others" },
    { label: "Kept", count: sum.kept, title: "Devices that are kept for jobs that restart", sample: "kept" },
    { label: "Free", count: sum.free, title: "Free devices, also on nodes that take no pods", sample: "free" },
    { label: "Usable", count: sum.usable, title: "Free devices on nodes that take pods" },
  ];
  return (
    <section class="sums">
      <h2>
        <Name text={sum.device} />
      </h2>
      <div class="sum-bar" aria-hidden="true">
        {parts.map((part) =>
          part.sample === undefined || part.count === 0 ? null : (
            <span key={part.label} class={`sum-part sum-${part.sample}`} style={{ flexGrow: part.count }} />
          ),
        )}
      </div>
      <dl class="sum-list">
        {parts.map((part) => (
          <div key={part.label} title={part.title}>
            <dt>
              {part.sample !== undefined && <span class={`sum-key sum-${part.sample}`} aria-hidden="true" />}
              {part.label}
            </dt>
            <dd>{formatCount(part.count)}</dd>
          </div>
        ))}
      </dl>
      <dl class="sum-pods" title="Pods that could start now, each within one node">
        <dt>Pods of {POD_SIZES.join("/")}</dt>
        <dd>{sum.pods.join("/")}</dd>
      </dl>
    </section>
  );
}

/** Free devices by node: how many nodes have each number of them. */
function Holes() {
  const holes = holesBySize(sortedNodes.value, mainDevice.value);
  const most = holes.reduce((max, hole) => Math.max(max, hole.nodes), 1);
  return (
    <section class="sums">
      <h2>Holes by size</h2>
      {holes.length === 0 ? (
        <p class="dim">
          No node that takes pods has free <Name text={mainDevice.value} />.
        </p>
      ) : (
        <ul class="holes">
          {holes.map((hole) => (
            <HoleRow key={`${hole.free}-${hole.whole}`} hole={hole} most={most} />
          ))}
        </ul>
      )}
    </section>
  );
}

function HoleRow({ hole, most }: { readonly hole: Hole; readonly most: number }) {
  return (
    <li>
      <span class="hole-size">{hole.whole ? `all ${hole.free}` : `${hole.free} free`}</span>
      <span class="hole-bar" aria-hidden="true">
        <span class={hole.whole ? "hole-whole" : "hole-part"} style={{ width: `${(100 * hole.nodes) / most}%` }} />
      </span>
      <span class="hole-count">{countOf(hole.nodes, "node")}</span>
    </li>
  );
}

/** The largest gangs that start now, by domain. */
function LargestGangs() {
  const size = fitQuery.value?.devices ?? 1;
  const gangs = largestGangs(sortedNodes.value, mainDevice.value, size);
  return (
    <section class="sums">
      <h2>Largest gang that starts now</h2>
      <p class="dim">
        Pods with {countOf(size, "device")} each. Quota, taints and reservations do not count.
      </p>
      <dl class="sum-list sum-wide">
        {gangs.map((gang) => (
          <div key={gang.level}>
            <dt>
              {gang.level === "" ? "anywhere" : <>in one {gang.level}</>}
              {gang.domain !== "" && gang.devices > 0 && (
                <span class="dim">
                  {" "}
                  <Name text={gang.domain} />
                </span>
              )}
            </dt>
            <dd>{formatCount(gang.devices)}</dd>
          </div>
        ))}
      </dl>
    </section>
  );
}
