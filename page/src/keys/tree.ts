// Keys as a tree whose nodes know the sum of what is below them; ten thousand rows may change four times a second.

import type { KeyBatch, KeyRow } from "../api/types";

export class TreeNode {
  readonly children = new Map<string, TreeNode>();
  row: KeyRow | null = null;
  seenAt = 0;
  keys = 0;
  rate = 0;
  bytesRate = 0;

  constructor(
    readonly path: string,
    readonly name: string,
    readonly parent: TreeNode | null,
    readonly depth: number,
  ) {}

  /** Milliseconds since the key was last seen; the server's figure plus what passed since it came. */
  age(now: number): number {
    return this.row === null ? 0 : this.row.age_ms + Math.max(0, now - this.seenAt);
  }
}

export type SortColumn = "key" | "rate" | "bytes" | "age";

export class KeyTree {
  private root = new TreeNode("", "", null, -1);
  private readonly leaves = new Map<string, TreeNode>();
  /** All rows, of which those that `accept` chooses are in the tree. */
  private readonly rows = new Map<string, { row: KeyRow; seenAt: number }>();
  private accept: (key: string) => boolean = () => true;
  /** Counts the changes of the set of keys: what is shown is laid out anew only then. */
  shape = 0;
  total = 0;
  truncated = false;

  get size(): number {
    return this.leaves.size;
  }

  find(path: string): TreeNode | undefined {
    return this.leaves.get(path);
  }

  clear(): void {
    this.rows.clear();
    this.empty();
    this.total = 0;
    this.truncated = false;
  }

  /** Chooses the keys that are in the tree. */
  filter(accept: (key: string) => boolean): void {
    this.accept = accept;
    this.empty();
    for (const { row, seenAt } of this.rows.values()) if (accept(row.key)) this.put(row, seenAt);
  }

  apply(batch: KeyBatch, now: number): void {
    for (const row of batch.rows) {
      this.rows.set(row.key, { row, seenAt: now });
      if (this.accept(row.key)) this.put(row, now);
    }
    this.total = Math.max(batch.total, this.rows.size);
    this.truncated = batch.truncated;
  }

  private empty(): void {
    this.root = new TreeNode("", "", null, -1);
    this.leaves.clear();
    this.shape += 1;
  }

  private put(row: KeyRow, now: number): void {
    const leaf = this.leaves.get(row.key) ?? this.grow(row.key);
    const rate = row.rate - (leaf.row?.rate ?? 0);
    const bytesRate = row.bytes_rate - (leaf.row?.bytes_rate ?? 0);
    leaf.row = row;
    leaf.seenAt = now;
    add(leaf, 0, rate, bytesRate);
  }

  private grow(key: string): TreeNode {
    let node = this.root;
    let path = "";
    for (const name of key.split("/")) {
      path = path === "" ? name : `${path}/${name}`;
      let child = node.children.get(name);
      if (child === undefined) {
        child = new TreeNode(path, name, node, node.depth + 1);
        node.children.set(name, child);
      }
      node = child;
    }
    this.leaves.set(key, node);
    add(node, 1, 0, 0);
    this.shape += 1;
    return node;
  }

  /** Returns the nodes of the tree that are open, in order of their names. */
  visible(isOpen: (node: TreeNode) => boolean): TreeNode[] {
    const shown: TreeNode[] = [];
    const visit = (node: TreeNode): void => {
      for (const child of sortedChildren(node)) {
        shown.push(child);
        if (child.children.size > 0 && isOpen(child)) visit(child);
      }
    };
    visit(this.root);
    return shown;
  }

  /** Returns all keys in the order of one column. */
  sorted(column: SortColumn, descending: boolean, now: number): TreeNode[] {
    const nodes = [...this.leaves.values()];
    const sign = descending ? -1 : 1;
    const value: Record<Exclude<SortColumn, "key">, (node: TreeNode) => number> = {
      rate: (node) => node.row?.rate ?? 0,
      bytes: (node) => node.row?.bytes_rate ?? 0,
      age: (node) => node.age(now),
    };
    if (column === "key") return nodes.sort((a, b) => sign * compare(a.path, b.path));
    const by = value[column];
    return nodes.sort((a, b) => sign * (by(a) - by(b)) || compare(a.path, b.path));
  }
}

function add(leaf: TreeNode, keys: number, rate: number, bytesRate: number): void {
  for (let node: TreeNode | null = leaf; node !== null; node = node.parent) {
    node.keys += keys;
    node.rate += rate;
    node.bytesRate += bytesRate;
  }
}

const collator = new Intl.Collator("en", { numeric: true });

function compare(a: string, b: string): number {
  return collator.compare(a, b);
}

function sortedChildren(node: TreeNode): TreeNode[] {
  return [...node.children.values()].sort((a, b) => compare(a.name, b.name));
}
