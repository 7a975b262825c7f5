import type { IconName } from "../app/look/icons";
import { Icon } from "./Icon";

/** The buttons of a drawing that can be zoomed. Its keys do the same. */
export function ZoomButtons(props: { readonly whole: string; readonly zoomIn: () => void; readonly zoomOut: () => void; readonly showWhole: () => void }) {
  return (
    <div class="map-zoom">
      <ZoomButton label="Zoom in" keys="+" icon="plus" run={props.zoomIn} />
      <ZoomButton label="Zoom out" keys="-" icon="minus" run={props.zoomOut} />
      <ZoomButton label={props.whole} keys="0" icon="whole" run={props.showWhole} />
    </div>
  );
}

function ZoomButton(props: { readonly label: string; readonly keys: string; readonly icon: IconName; readonly run: () => void }) {
  return (
    <button type="button" aria-label={props.label} title={`${props.label} (${props.keys})`} onClick={props.run}>
      <Icon name={props.icon} />
    </button>
  );
}
