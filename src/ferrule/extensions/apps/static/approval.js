// What is to be approved, and two buttons; the decision is made once.
const buttons = document.getElementById("buttons");
let facts = {};

const decided = (text) => {
  buttons.hidden = true;
  say(text);
};

view.on("result", (result) => {
  const data = dataOf(result);
  if (data === undefined) return;
  facts = data && typeof data === "object" && !Array.isArray(data) ? data : { value: data };
  document.getElementById("facts").replaceChildren(...Object.entries(facts).flatMap(([name, value]) => [
    element("dt", {}, config.titles[name] ?? words(name)), element("dd", {}, shown(value)),
  ]));
  if (view.state?.decided) decided(view.state.decided);
  else buttons.hidden = false;
});

const decide = async (tool, names, text) => {
  for (const button of buttons.children) button.disabled = true;
  say("…");
  try {
    let answer = "";
    if (tool) {
      const chosen = Object.entries(facts).filter(([name, value]) => names.includes(name) && value !== undefined);
      answer = await textOfCall(tool, Object.fromEntries(chosen));
    }
    view.save({ decided: text });
    decided(text);
    document.getElementById("status").focus();
    await view.setContext(`"${config.title}": ${text} ${JSON.stringify(facts)} ${answer}`.trim()).catch(() => {});
  } catch (error) {
    say(error.message, true);
    for (const button of buttons.children) button.disabled = false;
  }
};

const wire = (id, { label, tool, names, done }) => {
  const button = document.getElementById(id);
  button.textContent = label;
  button.addEventListener("click", () => decide(tool, names, done));
};
wire("approve", config.approve);
wire("decline", config.decline);
