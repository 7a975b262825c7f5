import type { RefObject } from "preact";
import { useId, useRef } from "preact/hooks";

import { session } from "../../app/live/store";
import { ownNamespaces, useOwnNamespaces } from "../../app/page/namespace-scope";
import {
  bringBack,
  cancelPlan,
  draft,
  isPlanning,
  namespace,
  planDraft,
  replaced,
  setNamespace,
  setText,
  showExample,
} from "../../app/plan/planner";
import { CopyButton } from "../../parts/Copy";
import { Text } from "../../parts/Text";
import { loadFiles } from "./files";

/** The text area with what belongs to it: files, example, namespace, and the button. */
export function Editor({ area }: { readonly area: RefObject<HTMLTextAreaElement | null> }) {
  const id = useId();
  return (
    <section class="card plan-editor" aria-labelledby={`${id}-title`}>
      <div class="card-head">
        <h2 id={`${id}-title`}>
          <label for={id}>Jobs as YAML</label>
        </h2>
        <div class="plan-sources">
          <FileButton />
          <button type="button" class="button" onClick={showExample}>
            Example
          </button>
          <CopyButton text={draft.value.text} what="the text" />
        </div>
      </div>
      <textarea
        id={id}
        ref={area}
        class="plan-text"
        aria-describedby={`${id}-help`}
        spellcheck={false}
        autocomplete="off"
        autocapitalize="off"
        wrap="off"
        value={draft.value.text}
        onInput={(event) => setText(event.currentTarget.value)}
      />
      <p id={`${id}-help`} class="plan-help">
        Drop a file on this page, or choose one. Tab moves on to the next field; <kbd>Ctrl</kbd> <kbd>Enter</kbd> plans.
      </p>
      <Replaced />
      <Actions id={id} />
    </section>
  );
}

function FileButton() {
  const input = useRef<HTMLInputElement>(null);
  return (
    <>
      <button type="button" class="button" onClick={() => input.current?.click()}>
        Choose a file
      </button>
      <input
        ref={input}
        type="file"
        hidden
        multiple
        accept=".yaml,.yml,.json"
        aria-label="File with jobs"
        onChange={(event) => {
          const field = event.currentTarget;
          // The same file can be chosen again after it was changed.
          void loadFiles(field.files).finally(() => (field.value = ""));
        }}
      />
    </>
  );
}

/** Another text has taken the place of the user's. */
function Replaced() {
  const current = replaced.value;
  if (!current) return null;
  return (
    <p class="plan-replaced" role="status">
      This is <Text text={current.by} />.{" "}
      <button type="button" class="more" onClick={bringBack}>
        Bring the earlier text back
      </button>
    </p>
  );
}

function Actions({ id }: { readonly id: string }) {
  const isBusy = isPlanning.value;
  useOwnNamespaces();
  return (
    <div class="plan-actions">
      <div class="plan-namespace">
        <label for={`${id}-namespace`}>Namespace</label>
        <input
          id={`${id}-namespace`}
          type="text"
          class="field"
          autocomplete="off"
          autocapitalize="off"
          spellcheck={false}
          maxLength={63}
          list={`${id}-namespaces`}
          aria-describedby={`${id}-namespace-help`}
          value={namespace.value}
          placeholder={session.value?.mode === "local" ? session.value.namespace : undefined}
          onInput={(event) => setNamespace(event.currentTarget.value.trim())}
          onKeyDown={(event) => {
            if (event.key === "Enter") void planDraft();
          }}
        />
        <datalist id={`${id}-namespaces`}>
          {ownNamespaces.value
            .filter(({ maySubmit }) => maySubmit)
            .map(({ name }) => (
              <option key={name} value={name} />
            ))}
        </datalist>
        <span id={`${id}-namespace-help`} class="dim">
          of jobs that name none
        </span>
      </div>
      {isBusy && (
        <button type="button" class="button" onClick={cancelPlan}>
          Cancel <kbd>Esc</kbd>
        </button>
      )}
      <button type="button" class="button button-main" aria-disabled={isBusy} onClick={() => void planDraft()}>
        {isBusy ? "Planning…" : "Plan it"}
      </button>
    </div>
  );
}
