/** Shows what `/openapi.json` says of the service, one operation after another, without any library. */

/**
 * Make an element.
 * @param {string} tag
 * @param {Record<string, string>} attributes
 * @param {...(Node|string)} children
 */
function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

/** What a field may be, in words. */
function kindOf(schema) {
  if (schema.anyOf) return schema.anyOf.map(kindOf).filter((kind) => kind !== "null").join(" or ");
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" or ");
  if (schema.type === "array") return `list of ${kindOf(schema.items ?? {})}`;
  return schema.format === "binary" ? "file" : schema.type ?? "anything";
}

/** A table of the fields of a body. */
function fieldsOf(schema) {
  const rows = Object.entries(schema.properties ?? {}).map(([name, field]) => {
    const needed = (schema.required ?? []).includes(name);
    const initial = field.default === undefined || field.default === null ? "" : ` Default: ${JSON.stringify(field.default)}.`;
    return element("tr", {},
      element("td", {}, element("code", {}, name)),
      element("td", { class: "quiet" }, kindOf(field) + (needed ? ", needed" : "")),
      element("td", {}, (field.description ?? "") + initial));
  });
  const head = element("tr", {}, ...["Field", "Kind", "Meaning"].map((title) => element("th", { scope: "col" }, title)));
  return element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows));
}

/** A command that sends a request with the examples of its fields. */
function exampleOf(method, path, content) {
  const schema = content["application/json"]?.schema;
  if (!schema) return `curl ${location.origin}${path}`;
  const body = {};
  for (const [name, field] of Object.entries(schema.properties ?? {})) {
    if (field.examples?.length) body[name] = field.examples[0];
  }
  const data = JSON.stringify(body).replaceAll("'", "'\\''");
  return `curl -X ${method.toUpperCase()} ${location.origin}${path} \\\n  -H 'Content-Type: application/json' \\\n  -d '${data}'`;
}

/** Everything about one operation. */
function sectionOf(method, path, operation) {
  const content = operation.requestBody?.content ?? {};
  const section = element("section", { id: `${method}${path}` },
    element("h3", {}, element("span", { class: "method" }, method.toUpperCase()), " ", element("code", {}, path)),
    element("p", {}, operation.summary ?? ""));
  const [kind] = Object.keys(content);
  if (kind) {
    const kinds = Object.keys(content).join(" or ");
    section.append(element("p", { class: "quiet" }, `Body: ${kinds}`), fieldsOf(content[kind].schema));
  }
  section.append(element("pre", { tabindex: "0" }, element("code", {}, exampleOf(method, path, content))));
  return section;
}

async function show() {
  const place = document.getElementById("operations");
  const contents = document.getElementById("contents");
  const answer = await fetch("/openapi.json");
  if (!answer.ok) {
    place.textContent = "The description could not be loaded.";
    return;
  }
  const description = await answer.json();
  const byTag = new Map();
  for (const [path, operations] of Object.entries(description.paths)) {
    for (const [method, operation] of Object.entries(operations)) {
      const tag = operation.tags?.[0] ?? "service";
      if (!byTag.has(tag)) byTag.set(tag, []);
      byTag.get(tag).push([method, path, operation]);
    }
  }
  const last = byTag.get("service");
  byTag.delete("service");
  if (last) byTag.set("service", last);
  place.replaceChildren();
  const list = element("ul");
  for (const [tag, operations] of byTag) {
    place.append(element("h2", {}, tag), ...operations.map((one) => sectionOf(...one)));
    for (const [method, path] of operations) {
      const link = element("a", { href: `#${method}${path}` }, `${method.toUpperCase()} ${path}`);
      list.append(element("li", {}, link));
    }
  }
  contents.replaceChildren(list);
}

show();
