import { expect, test } from "vitest";
import { age, bytes, clock, count, dateTime, duration, plural, rate, shortId } from "../src/format";

test.each([
  [0, "0"],
  [12.34, "12.3"],
  [1234.5, "1,235"],
  [99_999, "99,999"],
  [123_456, "123 k"],
  [12_345_678, "12.3 M"],
  [2.5e9, "2.5 G"],
  [null, "–"],
])("count of %s", (value, text) => expect(count(value)).toBe(text));

test.each([
  [0, "0 B"],
  [999, "999 B"],
  [22_340, "22.3 kB"],
  [5_000_000, "5 MB"],
  [undefined, "–"],
])("bytes of %s", (value, text) => expect(bytes(value)).toBe(text));

test.each([
  [0, "0 s"],
  [0.0000042, "4.2 µs"],
  [0.0125, "12.5 ms"],
  [1.5, "1.5 s"],
  [119, "119 s"],
  [125, "2 min"],
  [7300, "2 h"],
  [200_000, "2 d"],
])("duration of %s seconds", (value, text) => expect(duration(value)).toBe(text));

test.each([
  [0, "0"],
  [0.01, "<0.1"],
  [8.53, "8.5"],
  [250.4, "250"],
  [null, "–"],
])("rate of %s", (value, text) => expect(rate(value)).toBe(text));

test.each([
  [-5, "now"],
  [900, "now"],
  [59_900, "59 s"],
  [3_600_000, "1 h"],
  [200_000_000, "2 d"],
])("age of %s ms", (value, text) => expect(age(value)).toBe(text));

test("times are local, and absent ones a dash", () => {
  const noon = new Date(2026, 10, 17, 12, 3, 4, 56);
  expect(clock(noon.toISOString())).toBe("12:03:04.056");
  expect(dateTime(noon.getTime(), false)).toBe("2026-11-17 12:03:04");
  expect(dateTime(null)).toBe("–");
  expect(clock("nonsense")).toBe("–");
});

test("ids are cut, words are counted", () => {
  expect(shortId("36a0d3d81a094e9a7c2f5f005ccf65d6")).toBe("36a0d3d8");
  expect(shortId("a1")).toBe("a1");
  expect(shortId(null)).toBe("–");
  expect(plural(1, "reply", "replies")).toBe("1 reply");
  expect(plural(0, "reply", "replies")).toBe("0 replies");
});
