// The switch of language keeps the place: both languages have the same anchors.
const twin = document.querySelector("a.guide-twin");

// The heading that was passed last, or whatever the address names.
const section = () => {
  const passed = [...document.querySelectorAll("article :is(h1, h2, h3)[id]")].filter(
    (heading) => heading.getBoundingClientRect().top < innerHeight / 3,
  );
  const named = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  const bounds = named?.getBoundingClientRect();
  if (bounds && bounds.top >= 0 && bounds.top < innerHeight) return named.id;
  return scrollY > 0 ? (passed.at(-1)?.id ?? "") : "";
};

const follow = () => {
  twin.hash = section();
};

for (const kind of ["click", "auxclick", "focus", "pointerenter"]) twin?.addEventListener(kind, follow);
