// Package discover reads what a server offers, so that a person can choose: the skills of an MCP server, and what a
// host says at two well-known paths,
//
//	/.well-known/ai-catalog.json           an AI catalogue (Agent-Card/ai-catalog, version 1)
//	/.well-known/agent-skills/index.json   an index of skills (Agent Skills Discovery 0.2.0)
//
// Nothing is added here, and nothing that a server says about trust counts. Only the host that the user has typed, and
// those that the policy lists, may be inside the user's network: any other address is a stranger's, and Fetch knows.
//
// How a call goes through here: Open connects to an MCP server, and Choose finds one of its skills. Host fetches and
// parses the documents of a host (parseCatalog, parseIndex) and reads catalogues in a catalogue (nested). Pick finds
// one thing. Files returns the skill that it is, and Endpoint the address of an MCP server.
package discover
