import { useMemo, useState } from "preact/hooks";

import { type Json, writeYaml } from "../../app/text/yaml";
import { CopyButton } from "../../parts/Copy";
import { Text } from "../../parts/Text";

/** The object as YAML. It is written only when the user opens it. */
export function Yaml({ value }: { readonly value: unknown }) {
  const [isOpen, setOpen] = useState(false);
  const text = useMemo(() => (isOpen ? writeYaml(value as Json) : ""), [isOpen, value]);
  return (
    <details class="card yaml" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>YAML</summary>
      {isOpen && (
        <div class="yaml-body">
          <CopyButton text={text} what="YAML" />
          <pre tabIndex={0}>
            <Text text={text} max={40_000} lines />
          </pre>
        </div>
      )}
    </details>
  );
}
