"use strict";
// Tables that sort, and the timeline. Without this script the page has its tables, charts and a still picture instead.
(() => {
  document.documentElement.classList.add("script");

  for (const table of document.querySelectorAll("table")) {
    const body = table.tBodies[0];
    const headings = [...table.tHead.rows[0].cells];
    headings.forEach((heading, column) => {
      if (!heading.textContent) return;
      const button = document.createElement("button");
      button.type = "button";
      button.append(...heading.childNodes);
      heading.append(button);
      button.addEventListener("click", () => {
        const numbers = heading.classList.contains("num");
        const before = heading.getAttribute("aria-sort");
        const falling = before ? before === "ascending" : numbers;  // numbers: the largest first
        headings.forEach((other) => other.removeAttribute("aria-sort"));
        heading.setAttribute("aria-sort", falling ? "descending" : "ascending");
        const key = (row) => {
          const cell = row.cells[column];
          return numbers ? Number(cell.dataset.value ?? -Infinity) : cell.textContent;
        };
        const compare = (a, b) => (numbers ? key(a) - key(b) : key(a).localeCompare(key(b), undefined, { numeric: true }));
        const rows = [...body.rows].sort((a, b) => (falling ? compare(b, a) : compare(a, b)));
        body.append(...rows);
      });
    });
  }

  const source = document.getElementById("timeline-data");
  if (!source) return;
  const { total, launches, tracks, texts } = JSON.parse(source.textContent);
  const canvas = document.getElementById("timeline");
  const overview = document.getElementById("overview");
  const tip = document.getElementById("tip");
  const range = document.getElementById("timeline-range");
  const section = document.getElementById("timeline-section");

  // A block: start, duration, launch, text of its operation and line, bytes, flops, instructions in it, busy time.
  const [START, LENGTH, LAUNCH, OP, LINE, BYTES, FLOPS, COUNT, BUSY] = [0, 1, 2, 3, 4, 5, 6, 7, 8];
  const LEFT = Math.min(108, Math.round(0.26 * document.documentElement.clientWidth)), TOP = 24, GAP = 6;
  let y = TOP;
  const lanes = [{ title: "Launch", y, height: 22 }];
  y += 22 + GAP;
  for (const track of tracks) {
    const height = track.kind === "dma" ? 15 : 26;
    lanes.push({ title: track.title, y, height, track });
    y += height + (track.kind === "dma" ? 3 : GAP);
  }
  const HEIGHT = y + 2, STRIP = 34;
  let from = 0, to = total, colours = {}, width = 0;

  function readColours() {
    const style = getComputedStyle(document.documentElement);
    for (const name of ["card", "ink", "soft", "faint", "line", "shade"]) colours[name] = style.getPropertyValue(`--${name}`).trim();
    for (const name of RESOURCES) {
      colours[name] = style.getPropertyValue(`--${name.replace("_", "-")}`).trim();
      colours[`on_${name}`] = style.getPropertyValue(`--on-${name.replace("_", "-")}`).trim();
    }
  }

  function prepare(surface, height) {
    const ratio = window.devicePixelRatio || 1;
    surface.width = Math.round(width * ratio);
    surface.height = Math.round(height * ratio);
    surface.style.height = `${height}px`;
    const context = surface.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.font = "11px system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif";
    context.textBaseline = "middle";
    return context;
  }

  const time = (ns) => {
    if (ns === 0) return "0 us";
    if (Math.abs(ns) >= 1e6) return `${(ns / 1e6).toPrecision(4)} ms`;
    return Math.abs(ns) >= 1e3 ? `${(ns / 1e3).toPrecision(4)} us` : `${ns.toPrecision(3)} ns`;
  };
  const amount = (value, unit) => {
    for (const prefix of ["", "k", "M", "G"]) {
      if (value < 999.5) return `${Number(value.toPrecision(3))} ${prefix}${unit}`;
      value /= 1000;
    }
    return `${Number(value.toPrecision(3))} T${unit}`;
  };
  const place = (ns) => LEFT + ((ns - from) / (to - from)) * (width - LEFT);

  // The first block of a track that ends after a time: they are in order and do not overlap.
  function firstAfter(blocks, ns) {
    let low = 0, high = blocks.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (blocks[middle][START] + blocks[middle][LENGTH] < ns) low = middle + 1; else high = middle;
    }
    return low;
  }

  function step() {
    const wanted = ((to - from) / (width - LEFT)) * 110;
    const decade = 10 ** Math.floor(Math.log10(wanted));
    return decade * [1, 2, 5, 10].find((factor) => factor * decade >= wanted);
  }

  function text(context, words, left, middle, room) {
    if (room < 24) return;
    let shown = words;
    while (shown && context.measureText(shown).width > room - 8) shown = shown.slice(0, -2);
    if (shown.length < words.length) shown = shown.length > 3 ? `${shown.slice(0, -1)}\u2026` : "";
    context.fillText(shown, left + 4, middle);
  }

  // One code of colours: a block has that of its engine or resource. Layers have names, and are told apart by
  // hovering: blocks of others fade.
  const RESOURCES = ["tensor", "vector", "scalar", "gpsimd", "dma_bandwidth", "dma_issue", "dma_latency", "semaphore", "launch"];
  const ALIASES = { dma: "dma_bandwidth", other_core: "semaphore" };
  const resourceOf = (track, block) => {
    const name = track.kind === "critical" ? texts[block[OP]].split(":")[0] : track.kind;  // a step's resource comes first
    const known = ALIASES[name] ?? name;
    return RESOURCES.includes(known) ? known : "launch";
  };
  let held = null;  // the name of the layer whose blocks are shown alone

  function drawTimeline() {
    const context = prepare(canvas, HEIGHT);
    context.textAlign = "left";
    const grid = step();
    for (let ns = Math.ceil(from / grid) * grid; ns <= to; ns += grid) {
      const x = place(ns);
      context.fillStyle = colours.line;
      context.fillRect(x, TOP - 6, 1, HEIGHT);
      context.fillStyle = colours.faint;
      const label = grid >= 1e3 ? `${Number((ns / 1e3).toFixed(3))} us` : `${Number(ns.toFixed(3))} ns`;
      if (x + context.measureText(label).width < width) context.fillText(label, x + 3, 10);
    }
    context.save();
    context.beginPath();
    context.rect(LEFT, 0, width - LEFT, HEIGHT);
    context.clip();
    launches.forEach(([name, start, work, end], number) => {
      const left = Math.max(place(start), LEFT), right = Math.min(place(end), width);
      if (right < LEFT || left > width) return;
      context.fillStyle = number % 2 ? colours.line : colours.shade;
      context.fillRect(left, lanes[0].y, Math.max(right - left - 1, 1), lanes[0].height);
      const overhead = Math.min(place(work), width) - left;  // of the launch itself, before the kernel's own work
      context.fillStyle = colours.launch;
      context.strokeStyle = colours.ink;
      if (overhead > 0) context.fillRect(left, lanes[0].y + lanes[0].height - 3, overhead, 3);
      if (name === held) context.strokeRect(left + 0.5, lanes[0].y + 0.5, Math.max(right - left - 2, 1), lanes[0].height - 1);
      context.fillStyle = colours.ink;
      text(context, name, left, lanes[0].y + 10, right - left);
    });
    for (const { y: top, height, track } of lanes) {
      if (!track) continue;
      const blocks = track.blocks;
      for (let i = firstAfter(blocks, from); i < blocks.length && blocks[i][START] <= to; i++) {
        const block = blocks[i];
        const left = Math.max(place(block[START]), LEFT - 2);
        const room = Math.min(place(block[START] + block[LENGTH]), width + 2) - left;
        const resource = resourceOf(track, block), faded = held !== null && launches[block[LAUNCH]][0] !== held;
        context.globalAlpha = (block[COUNT] > 1 ? 0.25 + 0.75 * (block[BUSY] / block[LENGTH]) : 1) * (faded ? 0.15 : 1);
        context.fillStyle = colours[resource];
        context.fillRect(left, top, Math.max(room > 4 ? room - 1 : room, 0.7), height);
        context.globalAlpha = 1;
        if (room > 48 && height > 18 && !faded) {
          context.fillStyle = block[COUNT] > 1 && block[BUSY] < 0.8 * block[LENGTH] ? colours.ink : colours[`on_${resource}`];
          text(context, block[COUNT] > 1 ? `${block[COUNT]} ${texts[block[OP]]}` : texts[block[OP]], left, top + height / 2, room);
        }
      }
    }
    context.restore();
    for (const { title, y: top, height } of lanes) {
      context.fillStyle = colours.soft;
      context.fillText(title, 0, top + height / 2);
    }
    range.textContent = `${time(from)} to ${time(to)} of ${time(total)}`;
  }

  function drawOverview() {
    const context = prepare(overview, STRIP);
    const shown = tracks.filter((track) => track.kind !== "critical");
    const engines = shown.filter((track) => track.kind !== "dma");
    const across = (ns) => LEFT + (ns / total) * (width - LEFT);
    context.fillStyle = colours.shade;
    context.fillRect(LEFT, 0, width - LEFT, STRIP);
    shown.forEach((track) => {
      const row = Math.min(engines.indexOf(track) < 0 ? engines.length : engines.indexOf(track), engines.length);
      const height = STRIP / (engines.length + 1);
      context.fillStyle = colours[ALIASES[track.kind] ?? track.kind];
      for (const block of track.blocks) {
        context.fillRect(across(block[START]), row * height, Math.max(across(block[START] + block[LENGTH]) - across(block[START]), 0.5), height - 1);
      }
    });
    context.strokeStyle = colours.ink;
    context.lineWidth = 1.5;
    context.strokeRect(across(from) + 0.75, 0.75, Math.max(across(to) - across(from) - 1.5, 3), STRIP - 1.5);
    context.fillStyle = colours.faint;
    context.fillText("overview", 0, STRIP / 2);
  }

  let asked = false;
  function draw() {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => {
      asked = false;
      width = Math.max(canvas.parentElement.clientWidth, LEFT + 100);
      drawTimeline();
      drawOverview();
    });
  }

  function show(start, end) {
    const length = Math.min(Math.max(end - start, Math.min(20, total)), total);
    const middle = (start + end) / 2;
    from = Math.min(Math.max(middle - length / 2, 0), total - length);
    to = from + length;
    tip.hidden = true;
    draw();
  }

  function zoom(factor, at = (from + to) / 2) {
    const length = (to - from) * factor;
    if (length >= total) return show(0, total);
    if (length < 20) return;
    const start = at - (at - from) * factor;
    show(start, start + length);
  }

  const timeAt = (x) => from + ((x - LEFT) / (width - LEFT)) * (to - from);

  canvas.addEventListener("wheel", (event) => {
    if (event.ctrlKey || event.metaKey) {
      event.preventDefault();
      zoom(Math.exp(Math.max(-60, Math.min(60, event.deltaY)) * 0.01), timeAt(event.offsetX));
    } else if (Math.abs(event.deltaX) > Math.abs(event.deltaY) || event.shiftKey) {
      event.preventDefault();
      const shift = ((event.deltaX || event.deltaY) / (width - LEFT)) * (to - from);
      show(from + shift, to + shift);
    }
  }, { passive: false });

  let drag = null;
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    drag = { x: event.clientX, from, to };
    canvas.setPointerCapture(event.pointerId);
    canvas.classList.add("dragging");
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!drag) return hover(event);
    const shift = ((drag.x - event.clientX) / (width - LEFT)) * (drag.to - drag.from);
    show(drag.from + shift, drag.to + shift);
  });
  for (const name of ["pointerup", "pointercancel"]) {
    canvas.addEventListener(name, () => { drag = null; canvas.classList.remove("dragging"); });
  }
  canvas.addEventListener("pointerleave", () => { tip.hidden = true; hold(null); });
  canvas.addEventListener("dblclick", (event) => {
    const launch = launchAt(timeAt(event.offsetX));
    if (launch) show(launch[1], launch[3]);
  });
  canvas.addEventListener("keydown", (event) => {
    const quarter = (to - from) / 4;
    const actions = {
      "+": () => zoom(0.6), "=": () => zoom(0.6), "-": () => zoom(1 / 0.6), 0: () => show(0, total), Home: () => show(0, total),
      ArrowLeft: () => show(from - quarter, to - quarter), ArrowRight: () => show(from + quarter, to + quarter),
    };
    if (!actions[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    actions[event.key]();
  });
  for (const button of section.querySelectorAll("[data-zoom]")) {
    const actions = { in: () => zoom(0.6), out: () => zoom(1 / 0.6), fit: () => show(0, total) };
    button.addEventListener("click", actions[button.dataset.zoom]);
  }
  const centre = (event) => {
    if (!event.buttons) return;
    const middle = ((event.offsetX - LEFT) / (width - LEFT)) * total, half = (to - from) / 2;
    show(middle - half, middle + half);
  };
  overview.addEventListener("pointerdown", centre);
  overview.addEventListener("pointermove", centre);

  const launchAt = (ns) => launches.find(([, start, , end]) => start <= ns && ns <= end);

  function hold(name) {
    if (name === held) return;
    held = name;
    draw();
  }

  function hover(event) {
    const ns = timeAt(event.offsetX);
    const lane = lanes.find(({ y: top, height }) => event.offsetY >= top && event.offsetY <= top + height);
    const words = event.offsetX >= LEFT && lane ? describe(lane, ns) : null;
    hold(words && lane && !lane.track ? launchAt(ns)[0] : null);
    tip.hidden = !words;
    if (!words) return;
    tip.textContent = words;
    const box = canvas.parentElement.getBoundingClientRect();
    const x = event.clientX - box.left;
    tip.style.left = `${Math.max(0, Math.min(x + 14, width - tip.offsetWidth))}px`;
    tip.style.top = `${event.clientY - box.top + 16}px`;
  }

  function describe({ track }, ns) {
    if (!track) {
      const launch = launchAt(ns);
      if (!launch) return null;
      const [name, start, work, end] = launch;
      return `${name}\n${time(end - start)}, of it ${time(work - start)} the launch itself`;
    }
    const slack = ((to - from) / (width - LEFT)) * 2;  // two pixels: a short block can be hit
    const block = track.blocks[firstAfter(track.blocks, ns - slack)];
    if (!block || block[START] > ns + slack) return null;
    const several = block[COUNT] > 1;
    const lines = [
      `${texts[block[OP]]}${several ? `: ${block[COUNT]} instructions` : ""}`,
      `${launches[block[LAUNCH]][0]}, at ${time(block[START])}`,
      several ? `busy ${time(block[BUSY])} of ${time(block[LENGTH])}` : time(block[LENGTH]),
    ];
    if (block[BYTES]) lines.push(`${amount(block[BYTES], "B")}, ${amount((block[BYTES] / block[BUSY]) * 1e9, "B/s")}`);
    if (block[FLOPS]) lines.push(`${amount(block[FLOPS], "FLOP")}, ${amount((block[FLOPS] / block[BUSY]) * 1e9, "FLOP/s")}`);
    if (texts[block[LINE]]) lines.push(texts[block[LINE]]);
    return lines.join("\n");
  }

  for (const heading of document.querySelectorAll("[data-launch]")) {
    const launch = launches.find(([name]) => name === heading.dataset.launch);
    if (!launch) continue;
    heading.tabIndex = 0;
    heading.title = "Show on the timeline";
    const jump = () => {
      show(launch[1], launch[3]);
      section.scrollIntoView({ behavior: "smooth", block: "start" });
    };
    heading.addEventListener("click", jump);
    heading.addEventListener("keydown", (event) => { if (event.key === "Enter") jump(); });
  }

  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { readColours(); draw(); });
  new ResizeObserver(draw).observe(canvas.parentElement);
  readColours();
  draw();
})();
