import "../style/what-if.css";

import { useEffect } from "preact/hooks";

import { follow, session } from "../app/live/store";
import { useShortcuts } from "../app/page/keys";
import { useTitle } from "../app/page/title";
import { whatIfCommand, forecastYaml } from "../app/what-if/command";
import { askAtOpening, askForecast, written } from "../app/what-if/forecaster";
import { Banner } from "../parts/Banner";
import { Card } from "../parts/Card";
import { Command, CopyButton } from "../parts/Copy";
import { Text } from "../parts/Text";
import { Changes } from "./what-if/Changes";
import { Outcome } from "./what-if/Outcome";

/** What changes of the cluster would do to its jobs. */
export function WhatIf() {
  useTitle("What if");
  // The forms offer the names of nodes.
  useEffect(() => follow("nodes"), []);
  useOpening();
  useForecastKeys();
  const { problem } = written.value;
  return (
    <div class="page what-if">
      <div class="page-head">
        <h1>What if</h1>
        <p class="counts">Which jobs would start earlier or later after a change. Nothing in the cluster changes.</p>
      </div>
      {problem !== undefined && (
        <Banner tone="warning" title="The URL has no changes that this page can read">
          <Text text={`The page ignores the URL: ${problem}.`} />
        </Banner>
      )}
      <Changes />
      <Outcome />
      <Twin />
    </div>
  );
}

/** A request needs the key, which exists when the session has arrived. */
function useOpening(): void {
  const isReady = session.value !== undefined;
  useEffect(() => {
    if (isReady) askAtOpening();
  }, [isReady]);
}

/** Ctrl-Enter works while the user types, too. */
function useForecastKeys(): void {
  useShortcuts("What if", [{ keys: "Ctrl-Enter", label: "Forecast" }]);
  useEffect(() => {
    const onKey = (event: KeyboardEvent): void => {
      if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
      if (document.querySelector("dialog[open]") || event.isComposing) return;
      if (event.target instanceof Element && event.target.closest("a, .what-if-form")) return;
      event.preventDefault();
      void askForecast();
    };
    document.addEventListener("keydown", onKey);
    return () => document.removeEventListener("keydown", onKey);
  }, []);
}

/** The same question in a terminal. */
function Twin() {
  const { changes } = written.value;
  if (changes.length === 0) return null;
  const line = whatIfCommand(changes, session.value?.context);
  if (line !== undefined) return <Command label="Same in a terminal" text={line} />;
  const yaml = forecastYaml(changes);
  return (
    <Card title="Same in a terminal" aside={<CopyButton text={yaml} what="Forecast" />}>
      <p class="card-text">
        No option of <code>trellis what-if</code> says all of these changes. Save this object, and use{" "}
        <code>trellis what-if -f FILE</code> or <code>kubectl create -f FILE -o yaml</code>.
      </p>
      <pre class="what-if-yaml" tabIndex={0}>
        <Text text={yaml} max={6_000} lines />
      </pre>
    </Card>
  );
}
