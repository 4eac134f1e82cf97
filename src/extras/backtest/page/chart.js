// The chart of a report. The page puts this behind uPlot into one module, so this block keeps their names apart.
{
    const { recordings } = JSON.parse(document.getElementById("document").textContent);
    const [{ has_tips: hasTips, estimators, horizon = [] }] = recordings;
    const WEI_PER_GWEI = 1e9;
    const DOT_SIZE = 9;
    const LABEL_SIZE = 12;
    const LABEL_GAP = 4;
    // Estimators this near to each other are read together, in CSS pixels.
    const NEAR = 6;
    const SHARE_TICKS = [0, 0.5, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999, 1];
    // Variable of the style sheet with the colour of a rule's points, by the beginning of its name. Later ones hide
    // earlier ones of the same values.
    const OWN = { "fees within": "--horizon", configured: "--configured", calibrated: "--calibrated", "network rule": "--network" };

    const section = document.getElementById("chart");
    const place = section.querySelector(".plot");
    const readout = section.querySelector(".readout");
    const texts = (row) => [...row.cells].map((cell) => cell.textContent);
    const rows = [...document.querySelectorAll("tbody tr")].map(texts);

    // The share of a pair for one block is that of the next block.
    const pairs = (hasTips ? horizon : []).filter(({ within }) => within === 1)
        .map(({ kept, overpaid_p50 }) => ({ included_next: kept, overpaid_p50 }));
    // The table has the names, in this order.
    const all = [...estimators, ...pairs].map((row, index) => {
        const [name, ...values] = rows[index];
        return {
            name,
            label: name.replace(" without floors", ""),
            share: hasTips ? row.included_next : row.covers_after_25,
            cost: hasTips ? row.overpaid_p50 && Number(row.overpaid_p50) / WEI_PER_GWEI : row.max_fee_over_base_fee_p50,
            text: `${name}: ${values.join(", ")}${hasTips ? " gwei" : ""}`,
            color: Object.entries(OWN).find(([start]) => name.startsWith(start))?.[1] ?? "--other",
        };
    });
    document.querySelector(".key.horizon").hidden = pairs.length === 0;
    const points = all.filter(({ share, cost }) => share !== null && cost !== null);
    points.sort((one, other) => one.cost - other.cost || one.share - other.share);
    for (const point of points) {
        point.isBeaten = points.some(({ share, cost }) =>
            share >= point.share && cost <= point.cost && (share > point.share || cost < point.cost));
        point.text += point.isBeaten ? "" : " (on the line)";
    }

    // Shares by how often the misses are halved, so that 95, 99 and 99.9 % are apart. 100 % is one halving above one
    // miss.
    const top = Math.log2(Math.max(1, ...estimators.map(({ quotes }) => quotes))) + 1;
    const height = (share) => (share < 1 ? -Math.log2(1 - share) : top);
    const lowest = Math.min(...points.map(({ share }) => height(share)));
    const bottom = Math.max(...SHARE_TICKS.map(height).filter((tick) => tick <= lowest));
    const room = (top - bottom) / 11;
    const shareTicks = SHARE_TICKS.map(height).filter((tick) => tick === top || (tick >= bottom && tick <= top - 0.5));

    // Costs by their logarithm, with a place for 0 left of the least.
    const logs = points.filter(({ cost }) => cost > 0).map(({ cost }) => Math.log10(cost));
    const [least, most] = logs.length > 0 ? [Math.min(...logs), Math.max(...logs)] : [0, 0];
    const margin = Math.max((most - least) / 10, 0.1);
    const zero = points.some(({ cost }) => cost === 0) ? least - 2 * margin : undefined;
    const distance = (cost) => (cost > 0 ? Math.log10(cost) : zero);
    const range = [(zero ?? least) - margin, most + margin];

    // Returns at most `count` round costs on the axis, and 0.
    function costTicks(count) {
        const decades = [];
        for (let decade = Math.floor(least - margin); decade <= range[1]; decade += 1) decades.push(decade);
        const onAxis = (ticks) => ticks.filter((tick) => tick >= least - margin && tick <= range[1]);
        const digits = [[1, 2, 5], [1, 3], [1]].map((digits) =>
            onAxis(decades.flatMap((decade) => digits.map((digit) => decade + Math.log10(digit)))));
        const sparse = [2, 3, 5].map((step) => onAxis(decades.filter((decade) => decade % step === 0)));
        const ticks = [...digits, ...sparse].find(({ length }) => length <= count) ?? [];
        return zero === undefined ? ticks : [zero, ...ticks];
    }

    const format = new Intl.NumberFormat("en", { maximumSignificantDigits: 1, useGrouping: false });
    const costText = (tick) => (tick === zero ? "0" : format.format(10 ** tick));
    const shareText = (tick) => `${Number((100 * SHARE_TICKS.find((share) => height(share) === tick)).toFixed(1))} %`;

    const texted = (text) => (_, ticks) => ticks.map(text);

    const style = getComputedStyle(place);
    const color = (name) => () => style.getPropertyValue(name).trim();
    const dots = (name) => ({ stroke: color(name), fill: color(name), width: 0, size: DOT_SIZE, show: true });
    const column = (isIn) => points.map((point) => (isIn(point) ? height(point.share) : null));
    const colors = ["--other", ...Object.values(OWN)];
    const data = [
        points.map(({ cost }) => distance(cost)),
        column(({ isBeaten }) => !isBeaten),
        ...colors.map((name) => column((point) => point.color === name)),
    ];
    const size = () => ({ width: place.clientWidth, height: Math.min(460, Math.max(300, place.clientWidth * 0.55)) });
    const axis = (more) => ({
        stroke: color("--muted"), font: `12px ${style.fontFamily}`, grid: { stroke: color("--line"), width: 1 },
        ticks: { show: false }, ...more,
    });
    let plot;
    let current;

    function draw() {
        plot = new uPlot({
            ...size(),
            padding: [8, 20, 0, 0],
            legend: { show: false },
            cursor: { show: false },
            scales: { x: { time: false, range: () => range }, y: { range: () => [bottom - room, top + room] } },
            axes: [
                axis({ size: 28, splits: ({ width }) => costTicks(width / 56), values: texted(costText) }),
                axis({ size: 52, splits: () => shareTicks, values: texted(shareText) }),
            ],
            series: [
                {},
                {
                    stroke: color("--muted"), width: 1, spanGaps: true,
                    paths: uPlot.paths.stepped({ align: 1 }), points: { show: false },
                },
                ...colors.map((name) => ({ paths: () => null, points: dots(name) })),
            ],
            hooks: { draw: [drawNames] },
        }, data, place);
    }

    // Returns where a point is on the canvas.
    const position = ({ share, cost }, isCanvas = true) =>
        [plot.valToPos(distance(cost), "x", isCanvas), plot.valToPos(height(share), "y", isCanvas)];

    // Writes the names of points beside them, where there is room: first the service's own and those on the line.
    function drawNames() {
        const { ctx, bbox } = plot;
        const [size, gap] = [LABEL_SIZE, LABEL_GAP + DOT_SIZE / 2].map((length) => length * uPlot.pxRatio);
        const box = (left, y, width) => ({ left, right: left + width, top: y - size / 2, bottom: y + size / 2 });
        const taken = points.map((point) => position(point)).map(([x, y]) => box(x - gap / 2, y, gap));
        ctx.save();
        [ctx.font, ctx.textAlign, ctx.textBaseline] = [`${size}px ${style.fontFamily}`, "left", "middle"];
        const rank = ({ isBeaten, color }) => (color === "--other" ? 2 : 0) + (isBeaten ? 1 : 0);
        for (const point of points.toSorted((one, other) => rank(one) - rank(other))) {
            const [x, y] = position(point);
            const { width } = ctx.measureText(point.label);
            const isFree = ({ left, right, top, bottom }) =>
                left >= bbox.left && right <= bbox.left + bbox.width && top >= bbox.top
                && bottom <= bbox.top + bbox.height && !taken.some((other) =>
                    left < other.right && other.left < right && top < other.bottom && other.top < bottom);
            const places = [[x + gap, y], [x - gap - width, y], [x - width / 2, y - 2 * gap], [x - width / 2, y + 2 * gap]];
            const free = places.map(([left, middle]) => box(left, middle, width)).find(isFree);
            if (!free) continue;
            taken.push(free);
            // No line runs through a name.
            ctx.fillStyle = color("--surface")();
            ctx.fillRect(free.left, free.top, width, size);
            ctx.fillStyle = color("--text")();
            ctx.fillText(point.label, free.left, (free.top + free.bottom) / 2);
        }
        if (current !== undefined) {
            ctx.beginPath();
            ctx.arc(...position(points[current]), gap, 0, 2 * Math.PI);
            [ctx.strokeStyle, ctx.lineWidth] = [color("--text")(), 2 * uPlot.pxRatio];
            ctx.stroke();
        }
        ctx.restore();
    }

    const distanceTo = (point, [x, y]) => {
        const [left, top] = position(point, false);
        return Math.hypot(left - x, top - y);
    };

    // Shows the values of the point at `index`, and of those at the same place.
    function select(index) {
        current = index;
        const at = index === undefined ? undefined : position(points[index], false);
        const near = at ? points.filter((point) => distanceTo(point, at) <= NEAR) : [];
        readout.textContent = near.map(({ text }) => text).join("\n") || "Point at a dot to read its values.";
        plot.redraw(false);
    }

    function onKey(event) {
        const at = current ?? -1;
        const target = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: points.length - 1 }[event.key];
        if (event.key === "Escape") select(undefined);
        if (target === undefined) return;
        event.preventDefault();
        select(Math.min(Math.max(target, 0), points.length - 1));
    }

    function onPointer({ clientX, clientY }) {
        const { left, top } = plot.over.getBoundingClientRect();
        const distances = points.map((point) => distanceTo(point, [clientX - left, clientY - top]));
        const index = distances.indexOf(Math.min(...distances));
        if (index !== current) select(index);
    }

    const missing = all.filter((point) => !points.includes(point)).map(({ name }) => name);
    if (missing.length > 0) {
        const note = document.getElementById("missing");
        note.textContent = `Not shown, because one of the two numbers is unknown: ${missing.join("; ")}`;
        note.hidden = false;
    }
    section.hidden = false;
    if (points.length > 0) {
        draw();
        select(undefined);
        new ResizeObserver(() => place.clientWidth > 0 && plot.setSize(size())).observe(place);
        matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => plot.redraw());
        place.addEventListener("keydown", onKey);
        for (const name of ["pointerdown", "pointermove"]) place.addEventListener(name, onPointer);
        // Only the reader's own steps through the chart are announced.
        place.addEventListener("focus", () => readout.setAttribute("role", "status"));
        place.addEventListener("blur", () => readout.removeAttribute("role"));
    }
}
