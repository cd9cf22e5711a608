import { render } from "preact";
import { expect, test, vi } from "vitest";
import { live } from "../src/api/live";
import type { Batches, KeyRow } from "../src/api/types";
import { KeysView } from "../src/views/keys";

const ROW: KeyRow = { key: "a/b", count: 1, rate: 1, bytes_rate: 1, age_ms: 0, kind: "put", encoding: "text/plain", size: 1, source: null, value: "1" };

function batch(...keys: string[]): Batches {
  return { keys: { rows: keys.map((key) => ({ ...ROW, key })), total: keys.length, truncated: false } };
}

test("a view that is paused before the first keys came shows these, and no later ones", async () => {
  const handlers = new Set<(batch: Batches) => void>();
  vi.spyOn(live, "listen").mockImplementation((handle) => {
    handlers.add(handle);
    return () => handlers.delete(handle);
  });
  const root = document.createElement("div");
  render(<KeysView />, root);
  const button = [...root.querySelectorAll("button")].find((each) => each.textContent === "Pause");
  button?.click();
  await vi.waitFor(() => expect(root.textContent).toContain("Resume"));
  await vi.waitFor(() => expect(handlers.size).toBe(1));
  handlers.forEach((handle) => handle(batch("a/b")));
  await vi.waitFor(() => expect(root.querySelector(".keys-status")?.textContent).toBe("1 key, paused"));
  await vi.waitFor(() => expect(handlers.size).toBe(0));
});
