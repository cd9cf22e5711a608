// Key expressions: what a search means, and whether a key is part of it.

/** Returns the key expression of what was typed into a search field.
 *
 * A text with a wildcard is a key expression already. A word finds every key with a chunk that contains it, a path
 * every key that begins with it.
 */
export function searchExpression(text: string): string {
  const wanted = text.trim().replace(/^\/+|\/+$/g, "");
  if (wanted === "") return "**";
  if (wanted.includes("*")) return wanted;
  return wanted.includes("/") ? `${wanted}$*/**` : `**/$*${wanted}$*/**`;
}

/** Explains what is wrong with a key expression, or returns null if nothing is. */
export function fault(expression: string): string | null {
  if (/[#?]/.test(expression)) return "a key expression has no # and no ?; ** stands for any number of chunks";
  for (const chunk of expression.split("/")) {
    if (chunk === "") return "a chunk between two / is empty";
    if (chunk === "*" || chunk === "**") continue;
    if (chunk.replaceAll("$*", "").includes("*")) return `* and ** are whole chunks; inside a chunk write $* (found ${chunk})`;
    if (chunk.replaceAll("$*", "").includes("$")) return `$ is only written in $* (found ${chunk})`;
  }
  return null;
}

/** Makes a function that tells whether a key belongs to an expression. */
export function matcher(expression: string): (key: string) => boolean {
  if (expression === "**") return (key) => !key.startsWith("@") && !key.includes("/@");
  const pattern = expression.split("/").map(chunkPattern);
  return (key) => matches(pattern, 0, key.split("/"), 0);
}

const ANY = Symbol("*");
const ANY_NUMBER = Symbol("**");

type ChunkPattern = typeof ANY | typeof ANY_NUMBER | RegExp | string;

function chunkPattern(chunk: string): ChunkPattern {
  if (chunk === "**") return ANY_NUMBER;
  if (chunk === "*") return ANY;
  if (!chunk.includes("$*")) return chunk;
  const parts = chunk.split("$*").map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  return new RegExp(`^${parts.join(".*")}$`, "s");
}

function matches(pattern: ChunkPattern[], at: number, chunks: string[], from: number): boolean {
  const wanted = pattern[at];
  if (wanted === undefined) return from === chunks.length;
  const chunk = chunks[from];
  if (wanted === ANY_NUMBER) {
    if (matches(pattern, at + 1, chunks, from)) return true;
    return chunk !== undefined && !chunk.startsWith("@") && matches(pattern, at, chunks, from + 1);
  }
  return chunk !== undefined && matchesChunk(wanted, chunk) && matches(pattern, at + 1, chunks, from + 1);
}

function matchesChunk(wanted: Exclude<ChunkPattern, typeof ANY_NUMBER>, chunk: string): boolean {
  if (wanted === ANY) return !chunk.startsWith("@");
  if (typeof wanted === "string") return wanted === chunk;
  return !chunk.startsWith("@") && wanted.test(chunk);
}
