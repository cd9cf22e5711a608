import { expect, test } from "vitest";
import type { Sample, SqlResult, Value } from "../src/api/types";
import { eachNumber, History, numberOf } from "../src/keys/history";
import { cellText, isNumeric, points, timesOf } from "../src/parts/result";
import { curve, reduce } from "../src/parts/sparkline";
import { hexRows, kindOf } from "../src/parts/value";

function value(part: Partial<Value>): Value {
  return { encoding: "zenoh/bytes", size: 1, text: null, json: null, hex: "00", base64: "AA==", ...part };
}

function sample(part: Partial<Value>): Sample {
  return { key: "a", kind: "PUT", timestamp: null, value: value(part) };
}

test.each([
  [{ encoding: "image/png" }, "image"],
  [{ encoding: "image/png", base64: null }, "binary"],
  [{ text: "95.5", json: 95.5 }, "number"],
  [{ text: " -1e3 " }, "number"],
  [{ text: "{}", json: {} }, "json"],
  [{ text: "true", json: true }, "json"],
  [{ text: "1.2.3" }, "text"],
  [{}, "binary"],
] as [Partial<Value>, string][])("a value with %j is shown as %s", (part, kind) => expect(kindOf(value(part))).toBe(kind));

test("bytes are listed sixteen to a row", () => {
  const rows = hexRows("41".repeat(17) + "00");
  expect(rows).toHaveLength(2);
  expect(rows[0]?.text).toBe("A".repeat(16));
  expect(rows[1]).toEqual({ offset: "0010", bytes: "41 00", text: "A·" });
});

test("numbers inside a document have paths", () => {
  const found: [string, number][] = [];
  eachNumber({ pose: { x: 1, name: "r" }, joints: [2, { a: 3 }] }, (path, number) => found.push([path, number]));
  expect(found).toEqual([
    ["pose.x", 1],
    ["joints[0]", 2],
    ["joints[1].a", 3],
  ]);
});

test("the history keeps the last values of each path", () => {
  const history = new History();
  for (let index = 0; index < 300; index += 1) history.add(sample({ json: { x: index } }));
  expect(history.of("x")).toHaveLength(240);
  expect(history.of("x").at(-1)).toBe(299);
  expect(history.of("y")).toEqual([]);
  expect(numberOf(sample({ text: "7.5" }))).toBe(7.5);
  expect(numberOf(sample({ text: "seven" }))).toBeNull();
});

test("a curve has gaps where values are absent, and stays in its box", () => {
  const { line, area } = curve([0, 10, null, 5, 5]);
  expect(line.split("M")).toHaveLength(3);
  expect(area.split("Z")).toHaveLength(3);
  expect(curve([1])).toEqual({ line: "", area: "" });
  expect(curve([0, 0], 0).line).toBe("M0.0 22.5L100.0 22.5");
  expect(curve([4, 4]).line).toBe("M0.0 12.0L100.0 12.0");
});

test("peaks stay when a series is reduced", () => {
  expect(reduce([1, 9, 2, 3, null, null], 3)).toEqual([9, 3, null]);
});

const RESULT: SqlResult = {
  columns: [
    { name: "second", type: "timestamp" },
    { name: "rows", type: "bigint" },
    { name: "key", type: "varchar" },
  ],
  rows: [
    ["2026-11-17T15:00:02Z", 5, "a"],
    ["2026-11-17T15:00:01Z", null, "b"],
  ],
  elapsed_ms: 1,
  truncated: false,
};

test("columns are recognised by their cells", () => {
  expect(isNumeric(RESULT.rows, 1)).toBe(true);
  expect(isNumeric(RESULT.rows, 2)).toBe(false);
  expect(timesOf(RESULT.rows, 0)).not.toBeNull();
  expect(timesOf(RESULT.rows, 2)).toBeNull();
  expect(cellText({ a: [1] })).toBe('{"a":[1]}');
  expect(cellText(null)).toBe("");
  expect(cellText({ text: "21.5" })).toBe("21.5");
  expect(cellText({ base64: "AAH/", size: 3 })).toBe("0x0001ff");
  expect(cellText({ base64: btoa("\0".repeat(20)), size: 6230 })).toBe(`0x${"00".repeat(16)}… (6.23 kB)`);
});

test("a chart of times is in their order, one of names has bars", () => {
  const times = points(RESULT, 0, 1);
  expect(times.isTime).toBe(true);
  expect(times.line.values).toEqual([null, 5]);
  expect(points(RESULT, 2, 1)).toMatchObject({ x: [0, 1], line: { bars: true }, isTime: false });
});
