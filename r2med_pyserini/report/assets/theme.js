// Runs before anything is shown, so that a page in the chosen colours never flashes in the others.
(() => {
  try {
    const chosen = localStorage.getItem("theme");
    if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
  } catch {
    // A browser may forbid storage: the system's colours it is.
  }
})();
