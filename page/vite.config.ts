import { defineConfig } from "vitest/config";
import { licences } from "./licences.ts";

// `npm run dev` shows the page with the data of a node that runs on this machine: ZENSPARK_HTTP=http://127.0.0.1:8000.
const node = process.env["ZENSPARK_HTTP"] ?? "http://127.0.0.1:8000";

export default defineConfig({
  base: "/_app/",
  plugins: [licences()],
  build: {
    outDir: "../src/zenspark/web/static",
    emptyOutDir: true,
    target: "es2022",
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 700,
  },
  server: { proxy: { "/_api": { target: node, ws: true } } },
  test: { environment: "jsdom", include: ["tests/**/*.test.{ts,tsx}"], setupFiles: ["tests/setup.ts"] },
});
