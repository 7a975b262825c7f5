import { findAll } from "../app/find/searchable";
import { Dialog } from "./Dialog";
import { Finder } from "./Finder";

/** Goes to any job, queue, node or page by its name. */
export function Palette({ onClose }: { readonly onClose: () => void }) {
  return (
    <Dialog title="Go to" onClose={onClose} isBare>
      <Finder
        label="Go to a job, queue, node or page"
        placeholder="Go to a job, queue, node or page"
        hits={findAll}
        onDone={onClose}
        isOpen
        autoFocus
      />
    </Dialog>
  );
}
