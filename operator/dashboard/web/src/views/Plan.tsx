import "../style/plan.css";

import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";

import { useShortcuts } from "../app/page/keys";
import { useTitle } from "../app/page/title";
import { cancelPlan, isPlanning, keepDrafts, planDraft } from "../app/plan/planner";
import { Editor } from "./plan/Editor";
import { Outcome } from "./plan/Outcome";
import { moveCursor } from "./plan/cursor";
import { hasFiles, loadFiles } from "./plan/files";

/** What would become of a job, before it is submitted. */
export function Plan() {
  useTitle("Plan");
  useEffect(keepDrafts, []);
  usePlanKeys();
  const area = useRef<HTMLTextAreaElement>(null);
  const isDropping = useSignal(false);
  return (
    <div
      class={isDropping.value ? "page plan is-dropping" : "page plan"}
      onDragOver={(event) => {
        if (!hasFiles(event)) return;
        // Without this, the browser would leave the page and open the file.
        event.preventDefault();
        isDropping.value = true;
      }}
      onDragLeave={(event) => {
        const into = event.relatedTarget;
        isDropping.value = into instanceof Node && event.currentTarget.contains(into);
      }}
      onDrop={(event) => {
        if (!hasFiles(event)) return;
        event.preventDefault();
        isDropping.value = false;
        void loadFiles(event.dataTransfer?.files);
      }}
    >
      <div class="page-head">
        <h1>Plan</h1>
        <p class="counts">What would become of jobs if they were submitted now. A plan changes nothing.</p>
      </div>
      <div class="plan-columns">
        <Editor area={area} />
        <Outcome onPlace={(line, column) => area.current && moveCursor(area.current, line, column)} />
      </div>
    </div>
  );
}

/** Ctrl-Enter and Escape work while the user types, too. */
function usePlanKeys(): void {
  useShortcuts("Plan", [
    { keys: "Ctrl-Enter", label: "Plan it" },
    { keys: "Escape", label: "Cancel the plan" },
  ]);
  useEffect(() => {
    const onKey = (event: KeyboardEvent): void => {
      if (document.querySelector("dialog[open]") || event.isComposing) return;
      const isOnLink = event.target instanceof Element && event.target.closest("a") !== null;
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && !isOnLink) void planDraft();
      else if (event.key === "Escape" && isPlanning.peek()) cancelPlan();
      else return;
      event.preventDefault();
      event.stopPropagation();
    };
    document.addEventListener("keydown", onKey, { capture: true });
    return () => document.removeEventListener("keydown", onKey, { capture: true });
  }, []);
}
