// Pictures of items, from attributes that hold addresses, and only from the hosts that the operator of the service names.

import { make } from "./dom.js";

const SIDE = 44; // pixels

let columns = []; // names of the attributes that hold addresses
let hosts = [];
const broken = new Set(); // addresses without a picture: they are not asked for again

export function usePictures(info) {
  hosts = info.image_hosts;
  columns = info.attributes.filter((one) => one.kind === "url").map((one) => one.name);
}

/** The picture of an item, or null. One that does not load removes itself, and leaves no room behind. */
export function pictureOf(item, title) {
  const address = columns.map((name) => allowed(item.attributes?.[name])).find((one) => one && !broken.has(one));
  if (!address) return null;
  const looks = { class: "picture", alt: `Picture of ${title}`, width: SIDE, height: SIDE, loading: "lazy" };
  const picture = make("img", { ...looks, decoding: "async", referrerpolicy: "no-referrer" });
  picture.addEventListener("error", () => {
    broken.add(address);
    picture.remove();
  });
  picture.src = address; // after the listener
  return picture;
}

/** The address in its normal form if it is one of https, without a password, on an allowed host; otherwise null. */
function allowed(given) {
  if (typeof given !== "string" || !URL.canParse(given)) return null;
  const address = new URL(given);
  const plain = address.protocol === "https:" && address.username === "" && address.password === "";
  return plain && hosts.some((host) => covers(host, address.host)) ? address.href : null;
}

const covers = (host, other) => (host.startsWith("*.") ? other.endsWith(host.slice(1)) : other === host);
