// Package registries has the commands of the registry's server: registry serve, backup, restore, verify, mirror,
// rotate, audit, account and token.
//
// How a command goes through here: its flag --data names the data directory. open makes the stores there, reads the
// keys or makes them at the first start, and opens the registry (package exec/registry). serveRun.Run listens with
// package exec/serve, and package exec/registry/door answers.
//
// # The data directory
//
//	config.json        {"name": the registry's name, "issuers": [{"url", "shape": github or gitlab}] of pipelines,
//	                   "inside": [further hosts of private networks that the server may connect to]}
//	                   optional: url, the address of its pages (https://NAME), and signup, who can make an account:
//	                   closed (the host alone, the default), invite (accounts invite others) or open
//	witnesses.policy   optional: who must cosign each checkpoint (package manifest/tlog), with addresses
//	keys/              the private keys of the log and of the indexes (PEM, 0600)
//	metrics.token      reads /metrics from other machines (0600)
//	rows/              everything that changes (package exec/registry/rows)
//	files/             the files that clients read, and archives (package exec/registry/blobs)
//	tmp/               archives that arrive
package registries
