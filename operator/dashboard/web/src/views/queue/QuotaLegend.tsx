import { Legend } from "../../parts/Legend";

/** What the parts of a quota bar mean. */
export function QuotaLegend() {
  return (
    <Legend
      label="Parts of a bar"
      entries={[
        { sample: <span class="quota-frame" />, text: "quota" },
        { sample: <span class="quota-own" />, text: "used" },
        { sample: <span class="quota-borrowed" />, text: "borrowed" },
        { sample: <span class="quota-lendable" />, text: "lendable" },
        { sample: <span class="quota-waiting" />, text: "wait, in any flavor" },
      ]}
    />
  );
}
