package secrets

import "github.com/rye-build/rye/cmd/rye/cli"

// Commands lists the commands of this package, in the order in which the help shows them.
func Commands() []cli.Command {
	return []cli.Command{
		{
			Path: "auth", Group: "run", Help: "Manage the secrets that tools use.",
			Aka: []string{"secret", "secrets", "credentials"},
			More: "A tool declares its secrets, exec: {secrets: …} in the policy says which tool may have which, " +
				"and these commands store their values: in the system's keyring, or else in an encrypted file. A " +
				"variable of the environment overrides both. Values are never shown.",
		},
		{
			Path: "auth set", Quiet: true, Group: "run", Help: "Store or replace a secret.",
			More: "On a terminal it asks for the value without showing it; otherwise it reads standard input or " +
				"--from-file. Other users can see a command line, so the value is never an argument. A newline at " +
				"the end is removed. The value is stored in the system's keyring. Without a keyring, or with " +
				"--file, it goes into an encrypted file, with the key in the same directory. For a registry, " +
				"oci://HOST, the value is USER:PASSWORD or an identity token.\n\n" +
				"Examples:\n\n" +
				"    rye auth set OPENAI_API_KEY\n" +
				"    rye auth set acme-token --expires 30d --from-file token.txt\n" +
				"    pass show acme | rye auth set acme-token\n" +
				"    rye auth set oci://registry.example.com",
			Aka: []string{"auth add", "auth new"},
			New: func() cli.Runner { return new(authSetRun) }, Schema: "auth-set/1", Output: authAnswer{},
		},
		{
			Path: "auth login", Quiet: true, Group: "run", Help: "Sign in to a server with OAuth.",
			More: "It prints an address. Open it in a browser on this machine and sign in there; the token is " +
				"stored as the secret NAME, and renewed when it expires. A server of the Model Context Protocol " +
				"gets it by a header in its item: Authorization: Bearer ${NAME} (rye docs mcp-servers). The token " +
				"is for this server alone.\n\n" +
				"Examples:\n\n" +
				"    rye auth login acme-mcp https://mcp.acme.example/mcp\n" +
				"    rye auth login acme-mcp https://mcp.acme.example/mcp --scope read",
			New: func() cli.Runner { return new(authLoginRun) }, Schema: "auth-login/1", Output: authAnswer{},
		},
		{
			Path: "auth list", Group: "run", Help: "List secrets with location, expiry and owner.",
			More: "It lists stored secrets and those that the policy names, never a value. A variable of the " +
				"environment overrides a stored secret.\n\n" +
				"Examples:\n\n" +
				"    rye auth list\n" +
				"    rye auth list --json",
			Aka: []string{"auth status"},
			New: func() cli.Runner { return new(authLsRun) }, Schema: "auth-ls/1", Output: authLsAnswer{},
		},
		{
			Path: "auth remove", Quiet: true, Group: "run", Help: "Delete a secret.",
			More: "It is deleted from the keyring or the file. The service that issued it still accepts it: " +
				"revoke it there too.\n\n" +
				"Examples:\n\n" +
				"    rye auth remove OPENAI_API_KEY",
			Aka: []string{"auth delete", "auth logout"},
			New: func() cli.Runner { return new(authRmRun) }, Schema: "auth-rm/1", Output: authAnswer{},
		},
	}
}
