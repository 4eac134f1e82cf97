// What must hold on every page of the dashboard: its layout and its accessibility.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

import { checkContrasts, checkLayout } from "../browser.mjs";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
// Both colour schemes have the same layout, so the dark one is measured at one width.
const SIZES = { widths: [360, 768, 1440], dark: [1440] };

// Returns the checks, which save screenshots in the folder `shots`.
export function checks(shots) {
    return {
        // Checks layout and accessibility.
        async whole({ page }, name, more = {}) {
            await checkLayout(page, name, { shots, ...SIZES, also: brokenCharts, ...more });
            await accessible(page, name);
        },
        // Checks accessibility, without the layout.
        async accessible({ page }, name) {
            for (const colorScheme of ["dark", "light"]) await checkContrasts(page, name, colorScheme);
            await accessible(page, name);
        },
    };
}

// Checks the page with axe-core. `checkContrasts` measures the contrast, in both colour schemes and much faster.
async function accessible(page, name) {
    await page.setViewportSize({ width: 1440, height: 800 });
    await page.evaluate(AXE);
    const violations = await page.evaluate(async () => {
        const rules = { "color-contrast": { enabled: false } };
        const { violations } = await window.axe.run(document, { preload: false, resultTypes: ["violations"], rules });
        return violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html.slice(0, 160)).join(" | ")}`);
    });
    assert.deepEqual(violations, [], name);
}

// Runs in the page: returns what is wrong with the chart. It is drawn on a canvas: a label that is cut off has pixels at
// the canvas's edge.
function brokenCharts() {
    const canvas = document.querySelector(".plot canvas");
    if (!canvas?.checkVisibility()) return [];
    const found = [];
    const { width, height } = canvas;
    // Chromium warns of a canvas that is read repeatedly, so a copy is read.
    const copy = Object.assign(document.createElement("canvas"), { width, height });
    const context = copy.getContext("2d", { willReadFrequently: true });
    context.drawImage(canvas, 0, 0);
    const isDrawn = (...area) => context.getImageData(...area).data.some((value, index) => index % 4 === 3 && value > 0);
    if (isDrawn(0, 0, 1, height)) found.push("the chart is cut off at the left");
    if (isDrawn(width - 1, 0, 1, height)) found.push("the chart is cut off at the right");
    if (isDrawn(0, height - 1, width, 1)) found.push("the chart is cut off at the bottom");
    const [plot, over] = [canvas, document.querySelector(".u-over")].map((node) => node.getBoundingClientRect());
    const scale = width / plot.width;
    const left = Math.floor((over.left - plot.left) * scale) - 2;
    const bottom = Math.ceil((over.bottom - plot.top) * scale) + 2;
    if (!isDrawn(0, 0, left, height)) found.push("no price axis");
    if (!isDrawn(0, bottom, width, height - bottom)) found.push("no time axis");
    if (over.width < 100) found.push(`the chart is ${over.width} wide`);
    if (!document.querySelector(".legend").checkVisibility()) found.push("no legend");
    return found;
}
