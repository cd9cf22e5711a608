// Writes licences.txt beside the page: the name, version and licence text of every package that is bundled.

import { existsSync, readFileSync, readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import type { Plugin } from "vite";

interface Manifest {
  name?: string;
  version?: string;
  license?: string;
}

/** Returns the folder of the package that a bundled module belongs to, or null for a module of the page itself. */
export function packageFolder(module: string): string | null {
  const file = module.replace(/^\0/, "").split("?")[0] ?? "";
  if (!file.includes("/node_modules/")) return null;
  for (let folder = dirname(file); folder.includes("/node_modules/"); folder = dirname(folder)) {
    const manifest = join(folder, "package.json");
    if (existsSync(manifest) && readManifest(folder).name !== undefined) return folder;
  }
  return null;
}

/** Describes one package: a headline, and its licence file. */
export function describe(folder: string): string {
  const manifest = readManifest(folder);
  const file = readdirSync(folder).find((name) => /^licen[cs]e/i.test(name));
  const text = file === undefined ? "(the package has no licence file)" : readFileSync(join(folder, file), "utf8").trim();
  return `${manifest.name ?? folder} ${manifest.version ?? ""}: ${manifest.license ?? "licence not named"}\n\n${text}\n`;
}

/** Plugin of Vite that emits licences.txt. */
export function licences(): Plugin {
  return {
    name: "licences",
    generateBundle(_options, bundle): void {
      const folders = new Set<string>();
      for (const chunk of Object.values(bundle)) {
        if (chunk.type !== "chunk") continue;
        for (const module of Object.keys(chunk.modules)) {
          const folder = packageFolder(module);
          if (folder !== null) folders.add(folder);
        }
      }
      const parts = [...folders].sort().map(describe);
      const intro = "The page of zenspark contains these packages.\n\n";
      this.emitFile({ type: "asset", fileName: "licences.txt", source: intro + parts.join(`\n${"-".repeat(80)}\n\n`) });
    },
  };
}

function readManifest(folder: string): Manifest {
  return JSON.parse(readFileSync(join(folder, "package.json"), "utf8")) as Manifest;
}
