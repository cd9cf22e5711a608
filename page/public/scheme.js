// Runs before the first paint: the colour scheme that the user chose, if any.
try {
  const chosen = localStorage.getItem("zenspark.scheme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.scheme = chosen;
} catch {
  // Storage is blocked: the scheme of the system applies.
}
