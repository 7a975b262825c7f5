import { useSignal } from "@preact/signals";
import { useRef } from "preact/hooks";

import { session } from "../../app/live/store";
import { type ChangeKind, KINDS, isUnfinished, kindOf } from "../../app/what-if/changes";
import { KIND_LABELS, describeChange } from "../../app/what-if/describe";
import { askForecast, isAsking, outcome, setChanges, text, written } from "../../app/what-if/forecaster";
import { draftOf, emptyDraft } from "../../app/what-if/form";
import { placeProblems } from "../../app/what-if/problems";
import { countOf } from "../../app/text/format";
import { Empty } from "../../parts/Banner";
import { Card } from "../../parts/Card";
import { Icon } from "../../parts/Icon";
import { Text } from "../../parts/Text";
import type { ForecastChange } from "../../wire/forecast";
import { ChangeForm } from "./ChangeForm";

/** The form that is open: of a new change, or of the change at a place of the list. */
type OpenForm = { readonly kind: ChangeKind; readonly place?: number };

/** The list of changes, and the forms that add and edit them. */
export function Changes() {
  const open = useSignal<OpenForm | undefined>(findUnfinished());
  const ask = useRef<HTMLButtonElement>(null);
  const { changes } = written.value;
  const close = (): void => {
    open.value = undefined;
    ask.current?.focus();
  };
  const put = (change: ForecastChange, place: number): void => {
    if (setChanges([...changes.slice(0, place), change, ...changes.slice(place + 1)])) close();
  };
  // After Back, the list may be shorter than the place of the form.
  const form = open.value?.place !== undefined && open.value.place >= changes.length ? undefined : open.value;
  const isNew = form !== undefined && form.place === undefined;
  const jobs = changes.filter((change) => "addJob" in change).length;
  return (
    <Card title="Changes" aside={changes.length > 0 && countOf(changes.length, "change")}>
      {changes.length === 0 && !isNew && <NoChanges />}
      {changes.length > 0 && (
        <ol class="what-if-changes" aria-label="List of changes">
          {changes.map((change, place) => (
            <li key={`${place} ${JSON.stringify(change)}`}>
              <ChangeRow
                change={change}
                place={place}
                onEdit={() => (open.value = { kind: kindOf(change), place })}
                onRemove={() => {
                  open.value = undefined;
                  setChanges(changes.filter((_, other) => other !== place));
                }}
              />
              {form?.place === place && (
                <ChangeForm kind={form.kind} start={draftOf(change)} base={change} onDone={(next) => put(next, place)} onCancel={close} />
              )}
            </li>
          ))}
        </ol>
      )}
      {isNew && (
        <ChangeForm
          key={form.kind}
          kind={form.kind}
          start={emptyDraft(form.kind, session.value?.namespace ?? "", jobs + 1)}
          onDone={(change) => put(change, changes.length)}
          onCancel={close}
        />
      )}
      <div class="what-if-add" role="group" aria-label="Add a change">
        {KINDS.map((kind) => (
          <button key={kind} type="button" class="chip" onClick={() => (open.value = { kind })}>
            <Icon name="plus" />
            {KIND_LABELS[kind]}
          </button>
        ))}
      </div>
      <div class="what-if-actions">
        <button
          ref={ask}
          type="button"
          class="button button-main"
          disabled={changes.length === 0}
          aria-disabled={isAsking.value ? "true" : undefined}
          onClick={() => void askForecast()}
        >
          <Icon name="play" />
          {isAsking.value ? "The scheduler looks ahead…" : "Forecast"}
        </button>
        {changes.length > 0 && (
          <button type="button" class="button" onClick={() => setChanges([]) && (open.value = undefined)}>
            Remove all
          </button>
        )}
      </div>
    </Card>
  );
}

/** A link of another page may have begun a change. */
function findUnfinished(): OpenForm | undefined {
  const { changes } = written.peek();
  const place = changes.findIndex(isUnfinished);
  const change = changes[place];
  return change && { kind: kindOf(change), place };
}

function NoChanges() {
  return (
    <Empty title="Add a change to see what it does to the jobs">
      <p class="dim">
        The scheduler looks ahead twice, with and without the changes, and names the jobs that start or end at another
        time. It answers questions such as: does another quota help this queue, what does maintenance of a node cost, how
        many nodes are missing? Nothing in the cluster changes.
      </p>
    </Empty>
  );
}

function ChangeRow(props: {
  readonly change: ForecastChange;
  readonly place: number;
  readonly onEdit: () => void;
  readonly onRemove: () => void;
}) {
  const sentence = describeChange(props.change);
  const number = props.place + 1;
  return (
    <>
      <div class="what-if-change">
        <span class="what-if-sentence">
          <Text text={sentence} max={300} />
        </span>
        <button type="button" class="icon-button" aria-label={`Edit change ${number}`} title="Edit" onClick={props.onEdit}>
          <Icon name="edit" />
        </button>
        <button type="button" class="icon-button" aria-label={`Remove change ${number}`} title="Remove" onClick={props.onRemove}>
          <Icon name="cross" />
        </button>
      </div>
      {problemsOf(props.place).map((problem) => (
        <p key={problem} class="what-if-problem">
          <Icon name="warning" label="Problem" /> <Text text={problem} max={600} />
        </p>
      ))}
    </>
  );
}

/** The messages about a change. They name its place in the list as it was. */
function problemsOf(place: number): readonly string[] {
  const result = outcome.value;
  if (!result || !("error" in result) || result.asked !== text.value || result.error.kind !== "invalid") return [];
  return placeProblems(result.error.message, written.value.changes.length).byChange.get(place) ?? [];
}
