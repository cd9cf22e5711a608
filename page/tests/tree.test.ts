import { expect, test } from "vitest";
import type { KeyBatch, KeyRow } from "../src/api/types";
import { KeyTree } from "../src/keys/tree";
import { ROW_HEIGHT, windowOf } from "../src/parts/key_list";

function row(key: string, rate = 1, age = 0): KeyRow {
  return { key, count: 1, rate, bytes_rate: rate * 10, age_ms: age, kind: "PUT", encoding: "text/plain", size: 1, source: null, value: "x" };
}

function batch(rows: KeyRow[]): KeyBatch {
  return { rows, total: rows.length, truncated: false };
}

const open = (): boolean => true;

test("nodes have the sum of what is below them, also after a change", () => {
  const tree = new KeyTree();
  tree.apply(batch([row("a/b", 2), row("a/c", 3)]), 0);
  tree.apply(batch([row("a/b", 10)]), 0);
  const [a] = tree.visible(open);
  expect([a?.path, a?.keys, a?.rate, a?.bytesRate]).toEqual(["a", 2, 13, 130]);
});

test("a key may be a branch as well", () => {
  const tree = new KeyTree();
  tree.apply(batch([row("a"), row("a/b")]), 0);
  expect(tree.visible(open).map((node) => [node.path, node.row !== null, node.depth])).toEqual([
    ["a", true, 0],
    ["a/b", true, 1],
  ]);
});

test("numbers in names are ordered as numbers, closed branches are not entered", () => {
  const tree = new KeyTree();
  tree.apply(batch([row("r10/x"), row("r2/x")]), 0);
  expect(tree.visible(() => false).map((node) => node.path)).toEqual(["r2", "r10"]);
});

test("a filter chooses among all rows, and can be widened again", () => {
  const tree = new KeyTree();
  tree.apply(batch([row("a/b"), row("c/d")]), 0);
  tree.filter((key) => key.startsWith("c"));
  tree.apply({ ...batch([row("a/b", 5)]), total: 2 }, 0);
  expect([tree.size, tree.total]).toEqual([1, 2]);
  tree.filter(() => true);
  expect(tree.visible(open).map((node) => [node.path, node.rate])).toEqual([
    ["a", 5],
    ["a/b", 5],
    ["c", 1],
    ["c/d", 1],
  ]);
});

test("the list is sorted by any column", () => {
  const tree = new KeyTree();
  tree.apply(batch([row("a", 1, 500), row("b", 3, 100), row("c", 2, 900)]), 1000);
  const paths = (column: "key" | "rate" | "bytes" | "age", down: boolean): string => tree.sorted(column, down, 1000).map((node) => node.path).join("");
  expect([paths("key", true), paths("rate", true), paths("bytes", false), paths("age", false)]).toEqual(["cba", "bca", "acb", "bac"]);
});

test("ages grow by themselves", () => {
  const tree = new KeyTree();
  tree.apply(batch([row("a", 1, 500)]), 1000);
  expect(tree.find("a")?.age(3000)).toBe(2500);
});

test("ten thousand keys that all change are applied without a new layout", () => {
  const tree = new KeyTree();
  const rows = Array.from({ length: 10_000 }, (_unused, index) => row(`site/${index % 100}/sensor/${index}`));
  tree.apply(batch(rows), 0);
  const shape = tree.shape;
  tree.apply(batch(rows.map((each) => ({ ...each, rate: 2 }))), 1);
  expect(tree.shape).toBe(shape);
  expect(tree.visible(() => false)[0]?.rate).toBe(20_000);
});

test("only rows in sight are drawn", () => {
  const [first, last] = windowOf(5000 * ROW_HEIGHT, 640, 10_000);
  expect(last - first).toBeLessThan(50);
  expect(first).toBeLessThan(5000);
  expect(last).toBeGreaterThan(5020);
  expect(windowOf(0, 600, 3)).toEqual([0, 3]);
});
