import { findRows } from "../app/find/searchable";
import { Finder } from "./Finder";

const INPUT_ID = "search";

/** The search field of the header. */
export function Search() {
  return (
    <search class="search">
      <Finder
        label="Search jobs, queues and nodes"
        placeholder="Search"
        hint="/"
        hits={findRows}
        onDone={() => document.getElementById(INPUT_ID)?.blur()}
        isOpen={false}
        inputId={INPUT_ID}
      />
    </search>
  );
}

/** Moves the focus to the search field. Returns false on a narrow screen, which has none. */
export function focusSearch(): boolean {
  const input = document.getElementById(INPUT_ID);
  if (!input?.checkVisibility()) return false;
  input.focus();
  return true;
}
