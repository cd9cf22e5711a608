// Keys: every key of the network with its rate, size, age and last value; one of them followed closely.

import type { JSX } from "preact";
import { useCallback, useEffect, useMemo, useReducer, useRef, useState } from "preact/hooks";
import { live } from "../api/live";
import { count, plural } from "../format";
import { fault, matcher, searchExpression } from "../keys/keyexpr";
import { KeyTree, type SortColumn, type TreeNode } from "../keys/tree";
import { Empty, Segments } from "../parts/basics";
import { KeyDetail } from "../parts/key_detail";
import { KeyList } from "../parts/key_list";
import { useSettled } from "../state/load";
import { remember, route } from "../state/route";
import { oncePerFrame } from "../state/store";

type Form = "tree" | "list";

const SEARCH_DELAY_MS = 250;
const SORT_INTERVAL_MS = 1_000;
const OPEN_BY_ITSELF = 40;

export function KeysView(): JSX.Element {
  const given = route.value.parameters;
  const [search, setSearch] = useState(given.get("search") ?? "");
  const [form, setForm] = useState<Form>(given.get("form") === "list" ? "list" : "tree");
  const [selected, setSelected] = useState<string | null>(given.get("key"));
  const [paused, setPaused] = useState(false);
  const settled = useSettled(search, SEARCH_DELAY_MS);
  const expression = searchExpression(settled);
  const wrong = fault(expression);
  const { tree: keys, loaded, error } = useKeys(wrong === null ? expression : null, paused);

  useEffect(() => {
    remember("keys", {
      ...(settled === "" ? {} : { search: settled }),
      ...(form === "list" ? { form } : {}),
      ...(selected === null ? {} : { key: selected }),
    });
  }, [settled, form, selected]);

  return (
    <div class={`keys ${selected === null ? "" : "with-detail"}`}>
      <div class="toolbar">
        <input
          type="search"
          class="grow"
          aria-label="Search by key expression"
          placeholder="Search: a word, a path, or a key expression such as fleet/*/pose"
          value={search}
          onInput={(event) => setSearch(event.currentTarget.value)}
        />
        <Segments
          label="Form"
          options={[
            ["tree", "Tree"],
            ["list", "List"],
          ]}
          value={form}
          onChange={setForm}
        />
        <button type="button" aria-pressed={paused} onClick={() => setPaused(!paused)}>
          {paused ? "Resume" : "Pause"}
        </button>
      </div>
      <p class="keys-status muted" role="status">
        {wrong ?? error ?? (loaded ? status(keys, paused) : "")}
      </p>
      <div class="keys-panes">
        <KeyPane keys={keys} loaded={loaded || error !== null} form={form} selected={selected} onSelect={setSelected} />
        {selected !== null && <KeyDetail key={selected} path={selected} paused={paused} onClose={() => setSelected(null)} />}
      </div>
    </div>
  );
}

function status(keys: KeyTree, paused: boolean): string {
  const total = plural(keys.size, "key");
  const part = keys.truncated ? `${total} of at least ${plural(keys.total, "key")}: search for fewer` : keys.size < keys.total ? `${total} of ${count(keys.total)}` : total;
  return paused ? `${part}, paused` : part;
}

/** Subscribes to all keys; what a search finds is chosen here. The tree is changed in place and shown once per frame.
 *
 * A network with more keys than the node sends, and keys that `**` does not include, are searched by the node.
 */
function useKeys(expression: string | null, paused: boolean): { tree: KeyTree; loaded: boolean; error: string | null } {
  const tree = useMemo(() => new KeyTree(), []);
  const [loaded, setLoaded] = useState(false);
  const [error, setError] = useState<string | null>(null);
  const [, render] = useReducer((count: number) => count + 1, 0);
  const stopped = paused && loaded; // what was not shown yet is loaded first
  const subscribed = expression !== null && (tree.truncated || expression.includes("@")) ? expression : "**";

  useEffect(() => {
    if (expression === null) return;
    tree.filter(matcher(expression));
    render(undefined);
  }, [tree, expression]);

  useEffect(() => {
    if (stopped) return undefined;
    const show = oncePerFrame(() => render(undefined));
    let stale = true;
    const stopListening = live.listen((batch) => {
      if (batch.error !== undefined) setError(batch.error);
      if (batch.keys === undefined) return;
      if (stale) tree.clear();
      stale = false;
      setError(null);
      setLoaded(true);
      tree.apply(batch.keys, Date.now());
      show();
    });
    const reopened = live.whenOpened(() => (stale = true));
    const unwant = live.want({ keys: subscribed });
    return () => {
      unwant();
      reopened();
      stopListening();
    };
  }, [tree, subscribed, stopped]);
  return { tree, loaded, error };
}

interface PaneProperties {
  keys: KeyTree;
  loaded: boolean;
  form: Form;
  selected: string | null;
  onSelect: (path: string) => void;
}

function KeyPane({ keys, loaded, form, selected, onSelect }: PaneProperties): JSX.Element {
  const toggled = useRef(new Map<string, boolean>());
  const [turn, setTurn] = useState(0);
  const [sort, setSort] = useState<{ column: SortColumn; descending: boolean }>({ column: "rate", descending: true });
  const tick = useTick(form === "list" ? SORT_INTERVAL_MS : null);
  const isOpen = useCallback((node: TreeNode) => toggled.current.get(node.path) ?? node.keys <= OPEN_BY_ITSELF, []);
  const nodes = useMemo(
    () => (form === "tree" ? keys.visible(isOpen) : keys.sorted(sort.column, sort.descending, Date.now())),
    [keys, keys.shape, form, turn, sort, tick],
  );
  const toggle = useCallback(
    (node: TreeNode, open: boolean) => {
      toggled.current.set(node.path, open);
      setTurn((before) => before + 1);
    },
    [setTurn],
  );
  if (!loaded) return <Empty>Loading …</Empty>;
  if (keys.size === 0) {
    return <Empty>{keys.total > 0 ? "No key matches." : "No key was seen yet: keys appear here as soon as a value is published."}</Empty>;
  }
  return <KeyList nodes={nodes} tree={form === "tree"} isOpen={isOpen} onToggle={toggle} selected={selected} onSelect={onSelect} sort={sort} onSort={setSort} />;
}

function useTick(milliseconds: number | null): number {
  const [tick, setTick] = useState(0);
  useEffect(() => {
    if (milliseconds === null) return undefined;
    const timer = setInterval(() => setTick((before) => before + 1), milliseconds);
    return () => clearInterval(timer);
  }, [milliseconds]);
  return tick;
}
