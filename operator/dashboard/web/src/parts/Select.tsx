import { cleanLine, cutText } from "../app/text/clean";

const OPTION_LENGTH = 60;

/** A native select. Undefined is the first option: all. */
export function Select(props: {
  readonly label: string;
  readonly value: string | undefined;
  /** Text of the option that selects all. */
  readonly all: string;
  /** Values with their texts. */
  readonly options: readonly (readonly [string, string])[];
  readonly onChange: (value: string | undefined) => void;
}) {
  // A value of the URL may be none of the options, but it is in effect.
  const isKnown = props.value === undefined || props.options.some(([value]) => value === props.value);
  const options = isKnown ? props.options : [...props.options, [props.value ?? "", props.value ?? ""] as const];
  return (
    <select
      class={props.value === undefined ? "field" : "field is-set"}
      aria-label={props.label}
      value={props.value ?? ""}
      onChange={(event) => props.onChange(event.currentTarget.value || undefined)}
    >
      <option value="">{props.all}</option>
      {options.map(([value, text]) => (
        <option key={value} value={value}>
          {cleanLine(cutText(text, OPTION_LENGTH).text)}
        </option>
      ))}
    </select>
  );
}
