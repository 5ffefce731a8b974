#!/usr/bin/env node
// ---
// version: 1.2.0
// tool_type: javascript
// executor_id: rye/core/runtimes/node_runtime
// category: acme
// description: Fetch a page
// effects: [network]
// input_schema:
//   type: object
//   properties: {url: {type: string}}
//   required: [url]
// ---
console.log(JSON.stringify({ success: true }));
