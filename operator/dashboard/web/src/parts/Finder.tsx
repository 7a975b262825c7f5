import { useId, useState } from "preact/hooks";

import type { Hit } from "../app/find/find";
import type { IconName } from "../app/look/icons";
import { navigate } from "../app/page/route";
import { Icon } from "./Icon";
import { Name } from "./Text";

const ICONS: Readonly<Record<Hit["kind"], IconName>> = {
  page: "right",
  queue: "queues",
  job: "jobs",
  node: "nodes",
  action: "flag",
};

const KIND_NAMES: Readonly<Record<Hit["kind"], string>> = {
  page: "Page",
  queue: "Queue",
  job: "Job",
  node: "Node",
  action: "Action",
};

interface FinderProps {
  readonly label: string;
  readonly placeholder: string;
  readonly hits: (text: string) => readonly Hit[];
  /** Called after the user has chosen a hit. */
  readonly onDone: () => void;
  /** Hits are shown without a text, too. */
  readonly isOpen: boolean;
  readonly inputId?: string;
  readonly autoFocus?: boolean;
  /** A hint at the right end of the input. */
  readonly hint?: string;
}

/** A text field with hits below it. Up and Down choose, Enter opens. */
export function Finder(props: FinderProps) {
  const [text, setText] = useState("");
  const [chosen, setChosen] = useState(0);
  const [hasFocus, setFocus] = useState(false);
  const listId = useId();
  const isShown = props.isOpen || (hasFocus && text !== "");
  const hits = isShown ? props.hits(text) : [];
  const current = Math.min(chosen, hits.length - 1);

  const open = (hit: Hit | undefined): void => {
    if (!hit) return;
    setText("");
    setChosen(0);
    props.onDone();
    if (hit.href) navigate(hit.href);
    hit.run?.();
  };

  const onKeyDown = (event: KeyboardEvent & { readonly currentTarget: HTMLInputElement }): void => {
    const steps: Readonly<Record<string, number>> = { ArrowDown: 1, ArrowUp: -1 };
    const step = steps[event.key];
    if (step !== undefined && hits.length > 0) {
      event.preventDefault();
      setChosen((current + step + hits.length) % hits.length);
    } else if (event.key === "Enter") {
      event.preventDefault();
      open(hits[current]);
    } else if (event.key === "Escape" && !props.isOpen) {
      event.stopPropagation();
      setText("");
      event.currentTarget.blur();
    }
  };

  return (
    <div class="finder">
      <div class="finder-field">
        <Icon name="search" />
        <input
          id={props.inputId}
          type="text"
          role="combobox"
          aria-label={props.label}
          aria-expanded={isShown && hits.length > 0}
          aria-controls={listId}
          aria-autocomplete="list"
          aria-activedescendant={hits[current] ? `${listId}-${current}` : undefined}
          placeholder={props.placeholder}
          autocomplete="off"
          spellcheck={false}
          maxLength={200}
          value={text}
          ref={(input) => {
            if (props.autoFocus && input && document.activeElement !== input) input.focus();
          }}
          onInput={(event) => {
            setText(event.currentTarget.value);
            setChosen(0);
          }}
          onFocus={() => setFocus(true)}
          onBlur={() => setFocus(false)}
          onKeyDown={onKeyDown}
        />
        {props.hint && !text && <kbd>{props.hint}</kbd>}
      </div>
      <ul id={listId} class="finder-hits" role="listbox" aria-label="Hits" hidden={!isShown}>
        {hits.map((hit, place) => (
          <li
            key={`${hit.kind} ${hit.label}`}
            id={`${listId}-${place}`}
            role="option"
            aria-selected={place === current}
            onPointerMove={() => setChosen(place)}
            onPointerDown={(event) => {
              // The field must keep the focus until the click has been handled.
              event.preventDefault();
            }}
            onClick={() => open(hit)}
          >
            <Icon name={ICONS[hit.kind]} />
            <Name text={hit.label} />
            <span class="finder-detail">{hit.detail ? <Name text={hit.detail} /> : KIND_NAMES[hit.kind]}</span>
          </li>
        ))}
        {isShown && hits.length === 0 && (
          <li class="finder-none" role="option" aria-selected={false} aria-disabled>
            Nothing has this name.
          </li>
        )}
      </ul>
    </div>
  );
}
