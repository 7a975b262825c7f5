import { COLOUR_BY, type ColourBy } from "../../draw/map/look";
import { FitForm } from "./FitForm";
import { chooseColour, colourBy, isBadOnly, isTable, showBadOnly, toggleTable } from "./model";

const COLOUR_LABELS: Readonly<Record<ColourBy, string>> = {
  gang: "Job",
  queue: "Queue",
  state: "State",
  time: "Time left",
};

/** Chooses between map and table, what colours show, and the gang of the fit lens. */
export function Toolbar() {
  return (
    <div class="map-toolbar">
      <div class="segmented" role="group" aria-label="View">
        <Segment isOn={!isTable.value} text="Map" keys="t" run={() => isTable.peek() && toggleTable()} />
        <Segment isOn={isTable.value} text="Table" keys="t" run={() => isTable.peek() || toggleTable()} />
      </div>
      {isTable.value && (
        <button
          type="button"
          class="button toggle"
          aria-pressed={isBadOnly.value}
          title="Nodes that are not ready or unhealthy. A cordoned node alone is not bad."
          onClick={() => showBadOnly(!isBadOnly.peek())}
        >
          Only bad nodes
        </button>
      )}
      {!isTable.value && (
        <div class="colour-by">
          <span class="dim" aria-hidden="true">
            Colour by
          </span>
          <div class="segmented" role="group" aria-label="Colour by">
          {COLOUR_BY.map((by) => (
            <Segment key={by} isOn={colourBy.value === by} text={COLOUR_LABELS[by]} keys="c" run={() => chooseColour(by)} />
          ))}
          </div>
        </div>
      )}
      <FitForm />
    </div>
  );
}

function Segment(props: { readonly isOn: boolean; readonly text: string; readonly keys: string; readonly run: () => void }) {
  return (
    <button type="button" aria-pressed={props.isOn} title={`Key ${props.keys}`} onClick={props.run}>
      {props.text}
    </button>
  );
}
