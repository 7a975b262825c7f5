import { useEffect, useId, useRef, useState } from "preact/hooks";

import { nodes, queue } from "../../app/live/store";
import type { ChangeKind } from "../../app/what-if/changes";
import { KIND_LABELS } from "../../app/what-if/describe";
import { type Draft, FORMS, type Field, type Offer, changeOf } from "../../app/what-if/form";
import type { ForecastChange } from "../../wire/forecast";

/** Names that a field offers at once. */
const MAX_OFFERS = 50;

/** The form of one change. It is no `form` element: the page sends nothing but its own requests. */
export function ChangeForm(props: {
  readonly kind: ChangeKind;
  readonly start: Draft;
  /** The change that is edited. */
  readonly base?: ForecastChange;
  readonly onDone: (change: ForecastChange) => void;
  readonly onCancel: () => void;
}) {
  const [draft, setDraft] = useState<Draft>(props.start);
  const [isTried, setTried] = useState(false);
  const frame = useRef<HTMLDivElement>(null);
  useEffect(() => frame.current?.querySelector<HTMLElement>("input, select")?.focus(), []);
  const result = changeOf(props.kind, draft, props.base);
  const problems = isTried && "problems" in result ? result.problems : {};
  const finish = (): void => {
    if ("change" in result) {
      props.onDone(result.change);
      return;
    }
    setTried(true);
    const [first] = FORMS[props.kind].filter(({ name }) => result.problems[name] !== undefined);
    if (first) frame.current?.querySelector<HTMLElement>(`[name="${first.name}"]`)?.focus();
  };
  return (
    <div
      ref={frame}
      class="what-if-form"
      role="group"
      aria-label={KIND_LABELS[props.kind]}
      onKeyDown={(event) => {
        if (event.isComposing) return;
        if (event.key === "Enter" && event.target instanceof HTMLInputElement) finish();
        else if (event.key === "Escape") props.onCancel();
        else return;
        event.preventDefault();
        event.stopPropagation();
      }}
    >
      <div class="what-if-fields">
        {FORMS[props.kind].map((field) => (
          <FormField
            key={field.name}
            field={field}
            draft={draft}
            problem={problems[field.name]}
            onInput={(value) => setDraft({ ...draft, [field.name]: value })}
          />
        ))}
      </div>
      <div class="what-if-form-actions">
        <button type="button" class="button" onClick={finish}>
          {props.base ? "Keep the change" : "Add the change"}
        </button>
        <button type="button" class="button" onClick={props.onCancel}>
          Cancel
        </button>
      </div>
    </div>
  );
}

function FormField(props: {
  readonly field: Field;
  readonly draft: Draft;
  readonly problem: string | undefined;
  readonly onInput: (value: string) => void;
}) {
  const { field, draft, problem } = props;
  const id = useId();
  const value = draft[field.name] ?? "";
  const common = {
    id,
    name: field.name,
    class: "field",
    "aria-invalid": problem === undefined ? undefined : ("true" as const),
    "aria-describedby": problem === undefined ? undefined : `${id}-problem`,
  };
  return (
    <div class="what-if-field">
      <label for={id}>
        {field.label}
        {field.isRequired && <span aria-hidden="true"> *</span>}
      </label>
      {field.choices ? (
        <select {...common} value={value} onChange={(event) => props.onInput(event.currentTarget.value)}>
          {field.choices.map(([choice, text]) => (
            <option key={choice} value={choice}>
              {text}
            </option>
          ))}
        </select>
      ) : (
        <input
          {...common}
          type="text"
          autocomplete="off"
          spellcheck={false}
          maxLength={400}
          placeholder={field.placeholder}
          aria-required={field.isRequired ? "true" : undefined}
          list={field.offers && `${id}-offers`}
          value={value}
          onInput={(event) => props.onInput(event.currentTarget.value)}
        />
      )}
      {field.offers && (
        <datalist id={`${id}-offers`}>
          {listOffers(field.offers, draft, value).map((name) => (
            <option key={name} value={name} />
          ))}
        </datalist>
      )}
      {problem !== undefined && (
        <span id={`${id}-problem`} class="what-if-field-problem">
          {problem}
        </span>
      )}
    </div>
  );
}

/** Returns names with this text. A list of ten thousand options would be slow. */
function listOffers(offer: Offer, draft: Draft, text: string): string[] {
  const found = new Set<string>();
  for (const name of namesOf(offer, draft)) {
    if (name.includes(text)) found.add(name);
    if (found.size >= MAX_OFFERS) break;
  }
  return [...found];
}

function* namesOf(offer: Offer, draft: Draft): Iterable<string> {
  switch (offer) {
    case "nodes":
      yield* nodes.nodes.value.keys();
      break;
    case "queues":
      yield* queue.queues.value?.keys() ?? [];
      break;
    case "jobs":
      yield* queue.jobs.value.keys();
      break;
    case "namespaces":
      for (const job of queue.jobs.value.values()) if (job.metadata.namespace !== undefined) yield job.metadata.namespace;
      break;
    default: {
      const own = queue.queues.value?.get(draft["name"] ?? "");
      const queues = own ? [own] : (queue.queues.value?.values() ?? []);
      for (const { resources } of queues) for (const row of resources ?? []) yield offer === "resources" ? row.resource : row.flavor;
    }
  }
}
