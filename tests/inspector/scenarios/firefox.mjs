// The inspector page in Firefox, over WebDriver BiDi: what is seen at each step, as JSON on stdout.
// node firefox.mjs URL FIREFOX NODE_MODULES PICTURES

import { createRequire } from "node:module";
import { join } from "node:path";

const [url, executablePath, modules, pictures] = process.argv.slice(2);
const { default: puppeteer } = await import(createRequire(join(modules, "x.js")).resolve("puppeteer-core"));

const LIMIT_MS = 30_000;
const browser = await puppeteer.launch({ browser: "firefox", executablePath, headless: true, protocol: "webDriverBiDi", args: ["--no-remote"],
  extraPrefsFirefox: { "app.update.enabled": false, "datareporting.policy.dataSubmissionEnabled": false, "ui.prefersReducedMotion": 1 } });
const seen = { complaints: [], requests: [] };
try {
  const page = await browser.newPage();
  page.setDefaultTimeout(LIMIT_MS);
  await page.setViewport({ width: 1280, height: 860 });
  page.on("pageerror", (error) => seen.complaints.push(String(error)));
  page.on("console", (message) => { if (["error", "warn"].includes(message.type())) seen.complaints.push(message.text()); });
  page.on("request", (request) => seen.requests.push(request.url()));

  const shoot = (name) => page.screenshot({ path: join(pictures, `firefox-${name}.png`) });
  const text = (selector) => page.$eval(selector, (each) => each.innerText);
  const click = (selector) => page.locator(selector).click();
  const choose = (tool) => click(`#view-tools .item[data-key="${tool}"]`);
  const press = (label) => click(`::-p-xpath(//*[contains(concat(" ", @class, " "), " view ") and not(@hidden)]//button[normalize-space()="${label}"])`);
  const outcome = async (state) => {
    await page.waitForSelector(`#view-tools .outcome[data-state=${state}]:not([hidden]) .job-outcome .switcher`);
    return text("#view-tools .job-outcome");
  };
  const field = async (label, value) => {
    const id = await page.evaluate((name) => [...document.querySelectorAll("#view-tools label, dialog label")].find((each) => each.textContent.trim() === name && each.checkVisibility()).htmlFor, label);
    await page.locator(`#${id}`).fill(value);
  };

  await page.goto(url);
  await page.waitForSelector("#view-tools .item");
  seen.version = await browser.version();
  seen.address = page.url();
  seen.tools = (await page.$$("#view-tools .item")).length;

  await choose("add");
  await field("a", "40");
  await press("Call");
  seen.added = await outcome("done");
  await shoot("call");

  await choose("order");
  await field("product", "cane");
  await press("Call");
  await page.waitForSelector("dialog[open]");
  await field("size", "1");
  await field("name", "Ada");
  await shoot("question");
  await click("dialog[open] button[type=submit]");
  await page.waitForFunction(() => !document.querySelector("dialog[open]"));
  seen.ordered = await outcome("done");

  await choose("fails");
  await press("Call");
  await page.waitForFunction(() => /Failed/.test(document.querySelector("#view-tools .outcome:not([hidden]) .job-line")?.innerText || ""));
  await page.waitForSelector("#view-tools .job-outcome .switcher");
  seen.failed = await text("#view-tools .outcome");
  await shoot("failed");

  await choose("cut");
  await click("#view-tools .call-actions label.check input");
  await page.waitForSelector("textarea.editor");
  await page.locator("textarea.editor").fill("{\n \"metal\": \"gold\",\n \"length_mm\": 1.0\n}");
  await page.waitForFunction(() => /Line 2/.test(document.querySelector(".editor-problems")?.innerText || ""));
  seen.problems = await text(".editor-problems");
  seen.exact = await page.evaluate(async () => {
    const { parseExact } = await import("/exact.js");
    return JSON.stringify(parseExact("[1.0,1e400,9007199254740993]"));
  });
  await shoot("editor");

  await page.waitForSelector("#messages .message summary");
  await page.$$eval("#messages .message summary", (all) => { all.at(-1).click(); });
  await page.waitForSelector("#messages .message[open] .json-tree");
  seen.message = await text("#messages .message[open]");

  const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  await click("#theme");
  const light = await ground();
  await click("#theme");
  seen.grounds = [light, await ground()];
  seen.theme = await page.$eval("#theme", (each) => each.getAttribute("aria-label"));
  await shoot("dark");
  await page.setViewport({ width: 390, height: 800 });
  seen.width = await page.evaluate(() => document.documentElement.scrollWidth);
  await shoot("dark-390");
} catch (error) {
  seen.error = String(error?.stack || error);
} finally {
  await browser.close();
}
console.log(JSON.stringify(seen));
