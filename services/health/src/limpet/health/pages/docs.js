// Lists the operations of /openapi.json. Everything is put in as text, never as markup.
"use strict";

const METHODS = ["get", "post", "put", "patch", "delete", "head", "options"];

function element(name, text, className) {
  const made = document.createElement(name);
  if (text) made.textContent = text;
  if (className) made.className = className;
  return made;
}

function bodySchema(operation, schemas) {
  const content = Object.values((operation.requestBody || {}).content || {})[0];
  if (!content || !content.schema) return null;
  const reference = content.schema.$ref;
  return reference ? schemas[reference.split("/").pop()] || content.schema : content.schema;
}

function describe(method, path, operation, schemas) {
  const row = element("details");
  const head = element("summary");
  head.append(element("span", method.toUpperCase(), "method"), element("code", path));
  head.append(element("span", operation.summary || "", "what"));
  row.append(head);
  if (operation.description) row.append(element("p", operation.description));
  const parameters = (operation.parameters || []).filter((parameter) => parameter.name);
  if (parameters.length) {
    const list = element("ul");
    for (const { name, in: where, required, description } of parameters) {
      list.append(element("li", `${name} (${where}${required ? ", required" : ""}) ${description || ""}`));
    }
    row.append(element("h4", "Parameters"), list);
  }
  const body = bodySchema(operation, schemas);
  if (body) row.append(element("h4", "Body"), element("pre", JSON.stringify(body, null, 2)));
  const answers = element("ul");
  for (const [status, answer] of Object.entries(operation.responses || {})) {
    answers.append(element("li", `${status} ${answer.description || ""}`));
  }
  row.append(element("h4", "Answers"), answers);
  return row;
}

async function show() {
  const answer = await fetch("/openapi.json");
  if (!answer.ok) throw new Error(`/openapi.json answered ${answer.status}`);
  const api = await answer.json();
  const schemas = (api.components || {}).schemas || {};
  const sections = new Map();
  for (const [path, item] of Object.entries(api.paths)) {
    for (const method of METHODS.filter((name) => item[name])) {
      const service = (item[method].tags || ["other"])[0];
      if (!sections.has(service)) sections.set(service, []);
      sections.get(service).push(describe(method, path, item[method], schemas));
    }
  }
  const main = document.getElementById("operations");
  for (const [service, rows] of [...sections].sort()) main.append(element("h2", service), ...rows);
  document.getElementById("about").textContent = api.info.description;
}

show().catch((error) => { document.getElementById("about").textContent = `Not available: ${error.message}`; });
