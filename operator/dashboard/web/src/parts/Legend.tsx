import type { ComponentChildren } from "preact";

/** An entry of a legend: a sample, as it is drawn, and its meaning. */
export interface LegendEntry {
  readonly sample: ComponentChildren;
  readonly text: string;
}

/** Says what colours and patterns mean. */
export function Legend({ entries, label }: { readonly entries: readonly LegendEntry[]; readonly label: string }) {
  return (
    <ul class="legend" aria-label={label}>
      {entries.map((entry) => (
        <li key={entry.text}>
          <span class="legend-sample" aria-hidden="true">
            {entry.sample}
          </span>
          {entry.text}
        </li>
      ))}
    </ul>
  );
}
