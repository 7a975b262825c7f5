import type { ComponentChildren } from "preact";
import { useId } from "preact/hooks";

/** A section of a page with its heading. */
export function Card(props: {
  readonly title: string;
  readonly children: ComponentChildren;
  readonly aside?: ComponentChildren;
  readonly class?: string;
}) {
  const id = useId();
  return (
    <section class={`card ${props.class ?? ""}`} aria-labelledby={id}>
      <div class="card-head">
        <h2 id={id}>{props.title}</h2>
        {props.aside && <div class="card-aside">{props.aside}</div>}
      </div>
      {props.children}
    </section>
  );
}

/** A term and its value, in a list of facts. */
export interface Fact {
  readonly term: string;
  readonly value: ComponentChildren;
}

/** A list of facts. Facts without a value are left out. */
export function Facts({ facts }: { readonly facts: readonly (Fact | false | undefined)[] }) {
  return (
    <dl class="facts">
      {facts.map(
        (fact) =>
          fact && (
            <div key={fact.term}>
              <dt>{fact.term}</dt>
              <dd>{fact.value}</dd>
            </div>
          ),
      )}
    </dl>
  );
}
