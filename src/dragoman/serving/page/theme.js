// The theme somebody chose, set before the first paint. Without a choice the page follows the system.
"use strict";

try {
  const theme = localStorage.getItem("dragoman.theme");
  if (theme === "dark" || theme === "light") document.documentElement.dataset.theme = theme;
} catch {
  // Storage is forbidden: the theme of the system it is.
}
