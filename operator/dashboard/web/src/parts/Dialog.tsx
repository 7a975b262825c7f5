import type { ComponentChildren } from "preact";
import { useEffect, useId, useRef } from "preact/hooks";

import { Icon } from "./Icon";

/** A modal dialog. The browser keeps the focus in it, and returns the focus when it closes. */
export function Dialog(props: {
  readonly title: string;
  readonly onClose: () => void;
  readonly children: ComponentChildren;
  /** Without a heading on the screen, for the palette. */
  readonly isBare?: boolean;
}) {
  const element = useRef<HTMLDialogElement>(null);
  const id = useId();
  useEffect(() => {
    const dialog = element.current;
    const before = document.activeElement;
    dialog?.showModal();
    return () => {
      dialog?.close();
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);
  return (
    <dialog
      ref={element}
      class={props.isBare ? "dialog dialog-bare" : "dialog"}
      aria-labelledby={id}
      onClose={props.onClose}
      onClick={(event) => {
        // A click on the dialog itself, and not on its content, is a click beside it.
        if (event.target === element.current) props.onClose();
      }}
    >
      <div class="dialog-body">
        <div class={props.isBare ? "hidden" : "dialog-head"}>
          <h2 id={id}>{props.title}</h2>
          {!props.isBare && (
            <button type="button" class="icon-button" aria-label="Close" onClick={props.onClose}>
              <Icon name="cross" />
            </button>
          )}
        </div>
        {props.children}
      </div>
    </dialog>
  );
}
