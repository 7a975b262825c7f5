/** Small icons. */

import { ICON_PATHS, type IconName } from "../app/look/icons";

/** An icon. Without a label it is decoration, and text beside it says the same. */
export function Icon({ name, label }: { readonly name: IconName; readonly label?: string }) {
  return (
    <svg
      class="icon"
      viewBox="0 0 16 16"
      width="16"
      height="16"
      fill="none"
      stroke="currentColor"
      stroke-width="1.5"
      stroke-linecap="round"
      stroke-linejoin="round"
      role={label ? "img" : undefined}
      aria-label={label}
      aria-hidden={label ? undefined : "true"}
    >
      <path d={ICON_PATHS[name]} />
    </svg>
  );
}
