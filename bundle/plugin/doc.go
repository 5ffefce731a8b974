// Package plugin reads Agent Plugins, the package format that agent clients share (version 1.0.0). A plugin is a
// directory:
//
//	plugin.json            the manifest: $schema and name; optional version, description, author, homepage,
//	                       repository, license, keywords, extensions
//	skills/NAME/SKILL.md   skills (package skill), each in a directory of its own
//	mcp.json               MCP servers: programs (stdio) and addresses (streamable-http, sse)
//	REVERSE.DOMAIN/        files of one client
//
// # How a plugin goes through here
//
// List walks the directory and follows symbolic links within it. Read then reads the manifest (readManifest), finds
// the skills (readSkills) and the servers (readServers), and records a Problem for each rule of the specification
// that the plugin breaks, with its section. What one problem spoils is its Effect: the narrowest part that the
// specification names. Plugin.Load reads the files of one skill.
//
// # What rye adds
//
// Paths must be portable (package portable), as in every tree: others reject the plugin. Files that a tree never has,
// such as .git and node_modules, are left out and named. Of the reverse domain names one is ours, in the manifest:
//
//	"extensions": {
//	  "io.github.rye-build": {
//	    "id": "acme/deploy",
//	    "requires": {"plugins/base": "^1.2.0", "acme/lib": "^2.0.0"},
//	    "servers": {
//	      "db": {"read": ["data"], "write": ["out"], "network": ["db.example.com"], "secrets": ["db-token"],
//	             "risk": "write", "timeout": 120}
//	    }
//	  }
//	}
//
//	id        of the bundle, instead of plugins/NAME; it counts only for a signed plugin
//	requires  plugins and bundles that this one uses, with a range of versions (package semver)
//	servers   what the servers ask for. It is shown to who adds the plugin, and grants nothing
//	allow-secret
//	          files that may have what looks like a secret, by globs of paths, and why: for the publisher
package plugin
