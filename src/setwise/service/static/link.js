// The button that copies the address, which contains the whole request.

import { byId } from "./dom.js";

export function prepareLink() {
  byId("copy").addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(location.href); // undefined where the page is not served securely
      say("Copied.");
    } catch {
      say("The browser does not allow it: copy the address of this page instead.");
    }
  });
}

function say(words) {
  byId("copied").textContent = words;
  setTimeout(() => (byId("copied").textContent = ""), 4000);
}
