"use strict";

// Shows the page of now in place of the one that was loaded, a second after the last answer. What has
// not changed stays as it is, so that a selection and the focus do, too.

const every = 1000; // ms
const patience = 5000; // ms that an answer may take
const lost = document.getElementById("lost");
let timer = 0;

function patch(old, now) {
  if (old.nodeName !== now.nodeName) {
    old.replaceWith(document.importNode(now, true));
    return;
  }
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.data !== now.data) old.data = now.data;
    return;
  }
  for (const { name } of [...old.attributes]) {
    if (!now.hasAttribute(name)) old.removeAttribute(name);
  }
  for (const { name, value } of now.attributes) {
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  while (old.childNodes.length > now.childNodes.length) old.lastChild.remove();
  now.childNodes.forEach((child, i) => {
    if (i < old.childNodes.length) patch(old.childNodes[i], child);
    else old.append(document.importNode(child, true));
  });
}

async function update() {
  clearTimeout(timer);
  if (document.hidden) return;
  try {
    const answer = await fetch("/", { cache: "no-store", signal: AbortSignal.timeout(patience) });
    if (!answer.ok) throw new Error(answer.statusText);
    const now = new DOMParser().parseFromString(await answer.text(), "text/html");
    patch(document.querySelector("main"), now.querySelector("main"));
    document.title = now.title;
    lost.hidden = true;
  } catch {
    if (lost.hidden) {
      lost.textContent = `No answer since ${new Date().toLocaleTimeString()}: the run may have ended. What you see is from before.`;
      lost.hidden = false;
    }
  }
  clearTimeout(timer);
  timer = setTimeout(update, every);
}

document.addEventListener("visibilitychange", update);
timer = setTimeout(update, every);
