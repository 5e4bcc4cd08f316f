// Validates JSON by Ajv, one line in, one line out: {"schema": …, "values": […]} -> {"draft7": […], "draft2020": […]}.
// Each list holds, for each value, null or what is wrong with it. Ends when its input ends.
// The options are those of the TypeScript SDK: 1.x checks results by draft 7, later versions by 2020-12.
const Ajv = require("ajv").default;
const Ajv2020 = require("ajv/dist/2020").default;
const addFormats = require("ajv-formats").default;
const readline = require("node:readline");

const options = { strict: false, validateFormats: true, validateSchema: false, allErrors: true, logger: false };

function problems(make, schema, values) {
  const ajv = new make(options); // a new one each time: it keeps every schema that it has seen
  addFormats(ajv);
  const validate = ajv.compile(schema);
  return values.map((value) => (validate(value) ? null : ajv.errorsText(validate.errors)));
}

readline.createInterface({ input: process.stdin }).on("line", (line) => {
  let answer;
  try {
    const { schema, values } = JSON.parse(line);
    answer = { draft7: problems(Ajv, schema, values), draft2020: problems(Ajv2020, schema, values) };
  } catch (error) {
    answer = { error: String(error) };
  }
  process.stdout.write(JSON.stringify(answer) + "\n");
});
