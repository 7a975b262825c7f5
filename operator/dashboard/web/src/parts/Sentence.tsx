import { urls } from "../app/page/route";
import type { Sentence as Spans, Span } from "../wire/job";
import { Text } from "./Text";

/** A sentence of the server, word for word. What a span names is a link. */
export function Sentence({ spans }: { readonly spans: Spans }) {
  return (
    <span class="sentence">
      {spans.map((span, place) => {
        const href = spanUrl(span);
        const text = <SpanText text={span.text} />;
        return href ? (
          <a key={place} href={href}>
            {text}
          </a>
        ) : (
          <span key={place}>{text}</span>
        );
      })}
    </span>
  );
}

/** Spaces at the ends of a span separate it from its neighbours. */
function SpanText({ text }: { readonly text: string }) {
  return (
    <>
      {/^\s/.test(text) && " "}
      <Text text={text} max={2_000} />
      {/\S\s+$/.test(text) && " "}
    </>
  );
}

function spanUrl(span: Span): string | undefined {
  if (span.job) return urls.job(span.job);
  if (span.node !== undefined) return urls.node(span.node);
  if (span.queue !== undefined) return urls.queue(span.queue);
  return undefined;
}

/** Returns the nodes that the sentences name, each once. */
export function nodesOf(sentences: readonly Spans[]): string[] {
  const names = sentences.flat().flatMap((span) => (span.node === undefined ? [] : [span.node]));
  return [...new Set(names)];
}
