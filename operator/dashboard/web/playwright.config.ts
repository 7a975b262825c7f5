/**
 * Tests of the page in a real browser, on a real control plane with the real operator.
 *
 * `cargo test -p trellis-e2e --test dashboard` starts both and runs these tests. On a cluster of
 * your own, set TRELLIS, KUBECTL, KUBECONFIG and TRELLIS_USERS (test/browser/support/environment.ts
 * describes them), and TRELLIS_WITHOUT_ACTS=1. After `npm run build`, TRELLIS_ASSETS=../assets tests
 * the new page without a build of the program.
 *
 *     npx playwright test                      all tests but the measurements
 *     SPEED=1 npx playwright test              only the measurements
 *     UPDATE=1 npx playwright test pictures    writes the expected pictures and docs/dashboard.png
 */

import { defineConfig } from "@playwright/test";

import { environment } from "./test/browser/support/environment";

const measuresSpeed = process.env["SPEED"] === "1";
const SPEED_TAG = /@speed/;

export default defineConfig({
  testDir: "test/browser",
  // `vitest` does not know this ending, so `npm test` does not start these tests.
  testMatch: "**/*.browser.ts",
  // All tests share one cluster, and the machine of the CI has two cores.
  workers: 1,
  fullyParallel: false,
  retries: 0,
  forbidOnly: process.env["CI"] !== undefined,
  ...(measuresSpeed ? { grep: SPEED_TAG } : { grepInvert: SPEED_TAG }),
  timeout: measuresSpeed ? 300_000 : 90_000,
  expect: {
    timeout: 12_000,
    toHaveScreenshot: { animations: "disabled", caret: "hide", scale: "css", maxDiffPixelRatio: 0.005 },
  },
  updateSnapshots: process.env["UPDATE"] === "1" ? "all" : "none",
  snapshotPathTemplate: "{testDir}/pictures/{arg}{ext}",
  outputDir: "test-results",
  reporter: "line",
  globalSetup: "./test/browser/support/check-environment.ts",
  use: {
    actionTimeout: 12_000,
    navigationTimeout: 20_000,
    trace: "off",
    video: "off",
    screenshot: "only-on-failure",
    launchOptions: {
      executablePath: environment.chromium,
      args: ["--font-render-hinting=none", "--disable-lcd-text"],
      // One font: pictures and line breaks must not depend on the fonts of the machine.
      env: { ...process.env, FONTCONFIG_FILE: environment.fontConfiguration },
    },
  },
});
