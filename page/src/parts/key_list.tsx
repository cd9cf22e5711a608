// Rows of keys, of which only those in sight are in the document. Arrow keys move, open and close, as in a tree.

import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { KeyRow } from "../api/types";
import { age, bytes, plural, rate, shortId } from "../format";
import type { SortColumn, TreeNode } from "../keys/tree";

export const ROW_HEIGHT = 32;
const ROWS_BEYOND = 8;
const OLD_AFTER_MS = 10_000;

interface Sort {
  column: SortColumn;
  descending: boolean;
}

interface Properties {
  nodes: TreeNode[];
  tree: boolean;
  isOpen: (node: TreeNode) => boolean;
  onToggle: (node: TreeNode, open: boolean) => void;
  selected: string | null;
  onSelect: (path: string) => void;
  sort: Sort;
  onSort: (sort: Sort) => void;
}

const COLUMNS: [SortColumn | null, string, string][] = [
  ["key", "Key", "c-key"],
  ["rate", "Rate", "c-rate"],
  ["bytes", "Bytes/s", "c-bytes"],
  ["age", "Age", "c-age"],
  [null, "Last value", "c-value"],
  [null, "Source", "c-source"],
];

/** Returns the range of rows to draw for a scroll position. */
export function windowOf(scrollTop: number, height: number, total: number): [number, number] {
  const first = Math.max(0, Math.floor(scrollTop / ROW_HEIGHT) - ROWS_BEYOND);
  const last = Math.min(total, Math.ceil((scrollTop + height) / ROW_HEIGHT) + ROWS_BEYOND);
  return [Math.min(first, total), last];
}

export function KeyList(properties: Properties): JSX.Element {
  const { nodes, tree, selected } = properties;
  const box = useRef<HTMLDivElement>(null);
  const [scroll, setScroll] = useState({ top: 0, height: 600, gutter: 0 });
  const [active, setActive] = useState<string | null>(selected);

  useEffect(() => {
    const element = box.current;
    if (element === null) return undefined;
    const measure = (): void => setScroll({ top: element.scrollTop, height: element.clientHeight, gutter: element.offsetWidth - element.clientWidth });
    const resized = new ResizeObserver(measure);
    resized.observe(element);
    element.addEventListener("scroll", measure, { passive: true });
    return () => {
      resized.disconnect();
      element.removeEventListener("scroll", measure);
    };
  }, []);

  const activeIndex = nodes.findIndex((node) => node.path === active);
  const move = (index: number): void => {
    const node = nodes[Math.max(0, Math.min(nodes.length - 1, index))];
    const element = box.current;
    if (node === undefined || element === null) return;
    setActive(node.path);
    const top = nodes.indexOf(node) * ROW_HEIGHT;
    if (top < element.scrollTop) element.scrollTop = top;
    else if (top + ROW_HEIGHT > element.scrollTop + element.clientHeight) element.scrollTop = top + ROW_HEIGHT - element.clientHeight;
  };

  const [first, last] = windowOf(scroll.top, scroll.height, nodes.length);
  const now = Date.now();
  return (
    <div class={`key-list ${tree ? "tree" : "flat"}`}>
      <Head {...properties} gutter={scroll.gutter} />
      <div
        ref={box}
        class="key-rows"
        role="tree"
        aria-label="Keys"
        tabIndex={0}
        aria-activedescendant={activeIndex >= first && activeIndex < last ? rowId(activeIndex) : undefined}
        onKeyDown={(event) => onKey(event, properties, activeIndex, move)}
      >
        <div class="key-space" role="presentation" style={{ height: `${nodes.length * ROW_HEIGHT}px` }}>
          {nodes.slice(first, last).map((node, offset) => (
            <Row key={node.path} node={node} index={first + offset} now={now} active={node.path === active} onActivate={setActive} {...properties} />
          ))}
        </div>
      </div>
    </div>
  );
}

/** The titles of the columns; `gutter` is the width of the scroll bar below them. */
function Head({ tree, sort, onSort, gutter }: Properties & { gutter: number }): JSX.Element {
  return (
    <div class="key-row key-head" style={{ paddingRight: `${12 + gutter}px` }}>
      {COLUMNS.map(([column, title, style]) => (
        <span key={title} class={style}>
          {tree || column === null ? (
            title
          ) : (
            <button type="button" class="sort" aria-pressed={sort.column === column} onClick={() => onSort({ column, descending: sort.column === column ? !sort.descending : column !== "key" })}>
              {title}
              {sort.column === column ? (sort.descending ? " ↓" : " ↑") : ""}
            </button>
          )}
        </span>
      ))}
    </div>
  );
}

interface RowProperties extends Properties {
  node: TreeNode;
  index: number;
  now: number;
  active: boolean;
  onActivate: (path: string) => void;
}

function Row(properties: RowProperties): JSX.Element {
  const { node, index, now, active, tree, isOpen, onToggle, selected, onSelect, onActivate, nodes } = properties;
  const branch = tree && node.children.size > 0;
  const open = branch && isOpen(node);
  const row = node.row;
  const isFresh = row !== null && node.age(now) < OLD_AFTER_MS;
  const choose = (): void => {
    onActivate(node.path);
    activate(node, isOpen, onToggle, onSelect);
  };
  return (
    <div
      id={rowId(index)}
      class={`key-row ${active ? "active" : ""} ${isFresh ? "" : "old"}`}
      role="treeitem"
      aria-level={tree ? node.depth + 1 : 1}
      aria-posinset={index + 1}
      aria-setsize={nodes.length}
      aria-expanded={branch ? open : undefined}
      aria-selected={node.path === selected}
      style={{ top: `${index * ROW_HEIGHT}px` }}
      onClick={choose}
    >
      {tree ? <TreeKey node={node} branch={branch} open={open} onToggle={() => onToggle(node, !open)} /> : <ListKey path={node.path} />}
      <span class="c-rate number">{rate(node.rate)}</span>
      <span class="c-bytes number">{bytes(node.bytesRate)}</span>
      {row !== null && <LastSample row={row} since={node.age(now)} />}
    </div>
  );
}

function ListKey({ path }: { path: string }): JSX.Element {
  return (
    <span class="c-key" title={path}>
      <span class="c-name">{path}</span>
    </span>
  );
}

interface TreeKeyProperties {
  node: TreeNode;
  branch: boolean;
  open: boolean;
  onToggle: () => void;
}

function TreeKey({ node, branch, open, onToggle }: TreeKeyProperties): JSX.Element {
  return (
    <span class="c-key" style={{ paddingInlineStart: `${node.depth * 16}px` }} title={node.path}>
      <Twisty branch={branch} open={open} onToggle={onToggle} />
      <span class="c-name">{node.name}</span>
      {branch && <span class="c-below">{plural(node.keys, "key")}</span>}
    </span>
  );
}

function Twisty({ branch, open, onToggle }: { branch: boolean; open: boolean; onToggle: () => void }): JSX.Element {
  const toggle = (event: Event): void => {
    event.stopPropagation();
    onToggle();
  };
  if (!branch) return <span class="twisty" />;
  return <span class={`twisty ${open ? "open" : "closed"}`} aria-hidden="true" onClick={toggle} />;
}

function LastSample({ row, since }: { row: KeyRow; since: number }): JSX.Element {
  const deleted = row.kind.toUpperCase() === "DELETE";
  return (
    <>
      <span class="c-age number">{age(since)}</span>
      <span class={`c-value ${deleted ? "deleted" : ""}`}>{deleted ? "deleted" : row.value}</span>
      <span class="c-source mono">{row.source === null ? "" : shortId(row.source)}</span>
    </>
  );
}

function rowId(index: number): string {
  return `key-row-${index}`;
}

function onKey(event: KeyboardEvent, { nodes, tree, isOpen, onToggle, onSelect }: Properties, at: number, move: (index: number) => void): void {
  const node = nodes[at];
  const page = Math.max(1, Math.floor((event.currentTarget as HTMLElement).clientHeight / ROW_HEIGHT) - 1);
  const moves: Record<string, number> = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: nodes.length - 1, PageDown: at + page, PageUp: at - page };
  const target = moves[event.key];
  if (target !== undefined) move(target);
  else if (node === undefined) return;
  else if (event.key === "Enter" || event.key === " ") activate(node, isOpen, onToggle, onSelect);
  else if (tree && event.key === "ArrowRight") openOrDescend(node, at, isOpen, onToggle, move);
  else if (tree && event.key === "ArrowLeft") closeOrAscend(node, nodes, isOpen, onToggle, move);
  else return;
  event.preventDefault();
}

type IsOpen = Properties["isOpen"];
type OnToggle = Properties["onToggle"];

function activate(node: TreeNode, isOpen: IsOpen, onToggle: OnToggle, onSelect: (path: string) => void): void {
  if (node.row !== null) onSelect(node.path);
  else onToggle(node, !isOpen(node));
}

function openOrDescend(node: TreeNode, at: number, isOpen: IsOpen, onToggle: OnToggle, move: (index: number) => void): void {
  if (node.children.size === 0) return;
  if (isOpen(node)) move(at + 1);
  else onToggle(node, true);
}

function closeOrAscend(node: TreeNode, nodes: TreeNode[], isOpen: IsOpen, onToggle: OnToggle, move: (index: number) => void): void {
  if (node.children.size > 0 && isOpen(node)) onToggle(node, false);
  else if (node.parent !== null && node.parent.depth >= 0) move(nodes.indexOf(node.parent));
}
