// ---
// version: "0.1.0"
// tool_type: javascript
// executor_id: rye/core/runtimes/node_runtime
// category: "{{category}}"
// description: "{{description}}"
// risk: read
// input_schema:
//   type: object
//   required: [name]
//   additionalProperties: false
//   properties:
//     name: {type: string, description: Name to greet}
// output_schema:
//   type: object
//   required: [success]
//   properties:
//     success: {type: boolean}
//     greeting: {type: string}
// ---

"use strict";

const params = JSON.parse(process.argv[process.argv.indexOf("--params") + 1]);

console.log(JSON.stringify({ success: true, greeting: `hello, ${params.name}` }));
