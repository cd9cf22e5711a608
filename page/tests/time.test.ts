import { h, render } from "preact";
import { afterEach, expect, test, vi } from "vitest";
import type { Current, Past, PastSeries, Sample } from "../src/api/types";
import { lagTile } from "../src/views/overview";
import { inputTime, marksText, neighbour, parseMoment, TimeView, windowOf } from "../src/views/time";

afterEach(() => vi.unstubAllGlobals());

const NOON = Date.parse("2026-11-17T12:00:00Z");

function parameters(text: string): URLSearchParams {
  return new URLSearchParams(text);
}

test("a time of the URL is ISO text or milliseconds since 1970", () => {
  expect(parseMoment("2026-11-17T12:00:00Z")).toBe(NOON);
  expect(parseMoment(String(NOON))).toBe(NOON);
  expect([parseMoment(null), parseMoment(""), parseMoment("yesterday")]).toEqual([null, null, null]);
});

test("the URL names a window by its start and end, or by one of both", () => {
  expect(windowOf(parameters("from=2026-11-17T12:00:00Z&to=2026-11-17T12:01:00Z"), 0)).toEqual({ from: NOON, to: NOON + 60_000 });
  expect(windowOf(parameters("from=2026-11-17T12:00:00Z"), NOON + 5)).toEqual({ from: NOON, to: NOON + 5 });
  expect(windowOf(parameters("to=2026-11-17T12:00:00Z"), 0)).toEqual({ from: NOON - 300_000, to: NOON });
  expect(windowOf(parameters("key=a"), NOON)).toBeNull();
  expect(windowOf(parameters("from=x"), NOON)).toBeNull();
});

test("fields show local times, with milliseconds where these matter", () => {
  const time = new Date(2026, 10, 17, 12, 3, 4, 56).getTime();
  expect(inputTime(time, false)).toBe("2026-11-17T12:03:04");
  expect(inputTime(time, true)).toBe("2026-11-17T12:03:04.056");
});

test("the samples before and after an instant", () => {
  expect([neighbour([1, 2, 3], 2, -1), neighbour([1, 2, 3], 2, 1), neighbour([1], 1, 1)]).toEqual([1, 3, null]);
});

test("what is marked and what is drawn", () => {
  const at = new Date(2026, 10, 17, 0, 49, 7).getTime();
  const sample = { timestamp: new Date(at).toISOString() } as Sample;
  const past: Past = { samples: Array<Sample>(1000).fill(sample), truncated: true };
  const series: PastSeries = { paths: [""], path: "", t_ms: [at], v: [1], samples: 4321, truncated: false };
  const times = past.samples.map(() => at);
  expect(marksText(past, times, series, at)).toBe("The newest 1,000 are marked (since 00:49:07); the chart is drawn from all 4,321");
  expect(marksText(past, times, { ...series, truncated: true }, at)).toBe("The newest 1,000 are marked (since 00:49:07)");
  expect(marksText(past, times, null, at + 86_400_000)).toBe("The newest 1,000 are marked (since 2026-11-17 00:49:07)");
  expect(marksText({ samples: [sample], truncated: false }, [at], series, at)).toBe("1 sample from 2026-11-17 00:49:07 to 2026-11-17 00:49:07");
});

test("lag is no alarm while Spark starts", () => {
  const current = { lag_seconds: 45, starting: true } as Current;
  expect(lagTile(current, null)).toMatchObject({ figure: ["starting", "Spark"], alarm: false });
  expect(lagTile({ ...current, starting: false }, null)).toMatchObject({ figure: ["45.0", "s"], alarm: true });
  expect(lagTile({ ...current, starting: false, lag_seconds: 5 }, null)).toMatchObject({ alarm: false });
});

test("recorded keys are offered beside live ones", async () => {
  const asked: string[] = [];
  vi.stubGlobal("fetch", (path: string) => {
    asked.push(path);
    const document = path.startsWith("/_api/past/keys") ? { keys: ["old/b", "live/a"], truncated: false } : { rows: [{ key: "live/a" }], total: 1, truncated: false };
    return Promise.resolve(new Response(JSON.stringify(document)));
  });
  const place = document.createElement("div");
  render(h(TimeView, {}), place);
  const offered = (): (string | null)[] => [...place.querySelectorAll("datalist option")].map((option) => option.getAttribute("value"));
  await vi.waitFor(() => expect(offered()).toEqual(["live/a", "old/b"]));
  expect(asked.filter((path) => path.startsWith("/_api/past/keys"))).toHaveLength(1);
  render(null, place);
});
