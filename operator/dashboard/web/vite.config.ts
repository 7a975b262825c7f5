/// <reference types="vitest/config" />
/** Builds the page into ../assets: fixed names, and readable, so that a difference can be read. */

import { readFileSync } from "node:fs";

import { defineConfig } from "vite";

/** Packages whose code is in app.js. Their licences must be there, too. */
const BUNDLED = ["preact", "@preact/signals", "@preact/signals-core"];

function licences(): string {
  const texts = BUNDLED.map((name) => {
    const text = readFileSync(new URL(`node_modules/${name}/LICENSE`, import.meta.url), "utf8");
    return `${name}\n\n${text.trim()}`;
  });
  return `/*!\nThis file contains these packages.\n\n${texts.join("\n\n")}\n*/`;
}

export default defineConfig({
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: {
    outDir: "../assets",
    emptyOutDir: true,
    target: "es2024",
    minify: false,
    cssMinify: false,
    cssCodeSplit: false,
    modulePreload: false,
    assetsInlineLimit: 0,
    reportCompressedSize: false,
    rollupOptions: {
      output: {
        entryFileNames: "app.js",
        chunkFileNames: "[name].js",
        // The comments are in the source.
        comments: false,
        assetFileNames: "app.[ext]",
        banner: (chunk) => (chunk.isEntry ? licences() : ""),
      },
    },
  },
  // The default of 5 seconds fails property tests while other programs use all cores.
  test: { testTimeout: 60_000 },
  server: {
    proxy: { "/api": "http://127.0.0.1:4810" },
  },
});
