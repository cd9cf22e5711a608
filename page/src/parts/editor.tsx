// The SQL editor: CodeMirror with the tables and columns of the lake to complete.

import { autocompletion, closeBrackets, completionKeymap } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { sql, SQLDialect, type SQLNamespace } from "@codemirror/lang-sql";
import { bracketMatching, HighlightStyle, syntaxHighlighting } from "@codemirror/language";
import { Compartment, EditorState, Prec, type Extension } from "@codemirror/state";
import { EditorView, keymap, lineNumbers, placeholder } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import type { Table } from "../api/types";

const HIGHLIGHT = HighlightStyle.define([
  { tag: tags.keyword, class: "sql-keyword" },
  { tag: [tags.string, tags.special(tags.string)], class: "sql-string" },
  { tag: tags.number, class: "sql-number" },
  { tag: tags.comment, class: "sql-comment" },
]);

/** Returns the names that the editor completes: tables, and the columns of each. */
export function schemaOf(tables: readonly Table[]): SQLNamespace {
  return Object.fromEntries(tables.map((table) => [table.name, table.columns.map((column) => ({ label: column.name, detail: column.type, type: "property" }))]));
}

/** Words that are shown as keywords: those of queries, without words that columns are called. */
const QUERIES = SQLDialect.define({
  keywords:
    "select from where group by order limit offset having as on join left right full inner outer cross using union all distinct with recursive case when then else end and or not in is null like ilike between exists over partition asc desc nulls first last interval cast filter qualify unnest lateral values describe show explain",
  types: "bigint integer double varchar timestamp boolean date blob decimal",
  builtin: "true false",
  doubleQuotedStrings: false,
});

function language(tables: readonly Table[]): Extension {
  return sql({ dialect: QUERIES, schema: schemaOf(tables), upperCaseKeywords: false });
}

interface Properties {
  text: string;
  tables: readonly Table[];
  onChange: (text: string) => void;
  onRun: () => void;
}

export function Editor({ text, tables, onChange, onRun }: Properties): JSX.Element {
  const place = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView | null>(null);
  const dialect = useRef(new Compartment());
  const handlers = useRef({ onChange, onRun });
  handlers.current = { onChange, onRun };

  useEffect(() => {
    if (place.current === null) return undefined;
    const run = (): boolean => {
      handlers.current.onRun();
      return true;
    };
    const made = new EditorView({
      parent: place.current,
      state: EditorState.create({
        doc: text,
        extensions: [
          Prec.highest(keymap.of([{ key: "Mod-Enter", run }, { key: "Shift-Enter", run }])),
          lineNumbers(),
          history(),
          bracketMatching(),
          closeBrackets(),
          autocompletion(),
          keymap.of([...completionKeymap, ...defaultKeymap, ...historyKeymap]),
          dialect.current.of(language(tables)),
          syntaxHighlighting(HIGHLIGHT),
          placeholder("select key, count(*) from samples group by key"),
          EditorView.lineWrapping,
          EditorView.contentAttributes.of({ "aria-label": "SQL query" }),
          EditorView.updateListener.of((update) => {
            if (update.docChanged) handlers.current.onChange(update.state.doc.toString());
          }),
        ],
      }),
    });
    view.current = made;
    return () => {
      made.destroy();
      view.current = null;
    };
  }, []);

  useEffect(() => view.current?.dispatch({ effects: dialect.current.reconfigure(language(tables)) }), [tables]);
  useEffect(() => {
    const current = view.current;
    if (current === null || current.state.doc.toString() === text) return;
    current.dispatch({ changes: { from: 0, to: current.state.doc.length, insert: text } });
  }, [text]);

  return <div class="editor" ref={place} />;
}
