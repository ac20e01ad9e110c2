"use strict";
(() => {
  const cards = [...document.querySelectorAll(".card")];
  const boxes = [...document.querySelectorAll(".filters input[type=checkbox]")];
  const filters = document.querySelector(".filters");
  const search = filters.querySelector("input[type=search]");
  const facetOf = (word) => word.split(".")[0];
  const words = cards.map((card) => new Set(card.dataset.words.split(" ")));
  const facets = [...new Set(boxes.map((box) => facetOf(box.value)))];
  let texts = null;
  let shown = cards;

  function found() {
    const wanted = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    if (!wanted.length) return cards.map(() => true);
    texts ??= cards.map((card) => card.textContent.toLowerCase());
    return texts.map((text) => wanted.every((word) => text.includes(word)));
  }

  function update() {
    const checked = new Map(facets.map((facet) => [facet, []]));
    for (const box of boxes) if (box.checked) checked.get(facetOf(box.value)).push(box.value);
    const passes = facets.map((facet) => {
      const some = checked.get(facet);
      return words.map((own) => !some.length || some.some((word) => own.has(word)));
    });
    const matching = found();
    const visible = cards.map((_, i) => matching[i] && passes.every((pass) => pass[i]));
    const counts = new Map(boxes.map((box) => [box.value, 0]));
    cards.forEach((card, i) => {
      if (card.hidden === visible[i]) card.hidden = !visible[i];
      if (!matching[i]) return;
      const failing = facets.filter((_, f) => !passes[f][i]);
      if (failing.length > 1) return;
      for (const word of words[i]) {
        if (counts.has(word) && (!failing.length || failing[0] === facetOf(word))) counts.set(word, counts.get(word) + 1);
      }
    });
    for (const box of boxes) {
      box.parentElement.querySelector("output").textContent = counts.get(box.value).toLocaleString("en");
      box.parentElement.classList.toggle("none", !counts.get(box.value));
    }
    shown = cards.filter((_, i) => visible[i]);
    document.querySelector("#shown").textContent = shown.length.toLocaleString("en");
    document.querySelector(".empty").hidden = shown.length > 0;
  }

  function step(by) {
    const place = shown.indexOf(document.activeElement?.closest(".card"));
    const next = place < 0 ? shown.find((card) => card.getBoundingClientRect().bottom > 0) : shown[place + by];
    const covered = getComputedStyle(filters).position === "sticky" ? filters.offsetHeight + 8 : 0;
    document.documentElement.style.scrollPaddingTop = `${covered}px`;
    next?.focus({ preventScroll: true });
    next?.scrollIntoView({ block: "start" });
  }

  let waiting = 0;
  search.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(update, 120);
  });
  for (const box of boxes) box.addEventListener("change", update);
  document.querySelector("#all").addEventListener("click", () => {
    for (const box of boxes) box.checked = false;
    search.value = "";
    update();
  });
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || (event.target === search && event.key !== "Escape")) return;
    if (event.key === "/") { event.preventDefault(); search.focus(); search.select(); }
    else if (event.key === "j") step(1);
    else if (event.key === "k") step(-1);
    else if (event.key === "Escape") document.activeElement?.blur();
  });
  filters.hidden = false;
  update();
})();
