// The pages, in the order of the navigation: one module of pages/ each, fetched when it is opened first.
// A module exports `page(context)`, which returns the nodes of <main>. `under` names the entry that a page without one lights.
export const SECTIONS = [
  { name: "overview", title: "Overview", group: "Traffic", load: () => import("./pages/overview.js") },
  { name: "requests", title: "Requests", group: "Traffic", load: () => import("./pages/requests.js") },
  { name: "models", title: "Models", group: "Traffic", load: () => import("./pages/models.js") },
  { name: "rails", title: "Rails", group: "Safety", load: () => import("./pages/rails.js") },
  { name: "reviews", title: "Reviews", group: "Safety", load: () => import("./pages/reviews.js") },
  { name: "keys", title: "Keys and teams", group: "Cost", load: () => import("./pages/keys.js") },
  { name: "cache", title: "Cache", group: "Cost", load: () => import("./pages/cache.js") },
  { name: "evaluations", title: "Evaluations", group: "Quality", load: () => import("./pages/evaluations.js") },
  { name: "playground", title: "Playground", group: "Quality", load: () => import("./pages/playground.js") },
  { name: "trace", title: "Trace", under: "requests", load: () => import("./pages/trace.js") },
];

export const sectionOf = (name) => SECTIONS.find((section) => section.name === name) ?? SECTIONS[0];
