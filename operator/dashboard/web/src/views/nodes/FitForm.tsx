import { useId } from "preact/hooks";

import { setQuery } from "../../app/page/route";
import { fitSentence } from "../../draw/node/fit";
import { Icon } from "../../parts/Icon";
import { fitQuery, fitSummary, fitText } from "./model";

/** The fit lens: a gang as `8x8`, 8 pods of 8 devices. */
export function FitForm() {
  const id = useId();
  const text = fitText.value;
  const isWrong = text !== "" && fitQuery.value === undefined;
  return (
    <div class="fit-form">
      <label for={id}>Would fit</label>
      <input
        id={id}
        type="text"
        class="field"
        size={9}
        placeholder="8x8"
        autocomplete="off"
        spellcheck={false}
        value={text}
        aria-invalid={isWrong}
        aria-describedby={`${id}-help`}
        title="Pods x devices of each pod, such as 8x8. For another kind of device: 8x1:rdma/hca"
        onInput={(event) => setQuery({ fit: event.currentTarget.value })}
        onKeyDown={(event) => {
          if (event.key === "Escape") setQuery({ fit: undefined });
        }}
      />
      {text !== "" && (
        <button type="button" class="icon-button" aria-label="Turn the lens off" onClick={() => setQuery({ fit: undefined })}>
          <Icon name="cross" />
        </button>
      )}
      <span id={`${id}-help`} class={isWrong ? "fit-help fit-wrong" : "fit-help"} role="status">
        <FitAnswer isWrong={isWrong} />
      </span>
    </div>
  );
}

function FitAnswer({ isWrong }: { readonly isWrong: boolean }) {
  if (isWrong) return <>Write pods x devices, such as 8x8 or 8x1:rdma/hca.</>;
  const [asked, summary] = [fitQuery.value, fitSummary.value];
  if (asked === undefined || summary === undefined) return <span class="dim">pods x devices</span>;
  return <>{fitSentence(asked, summary)}</>;
}
