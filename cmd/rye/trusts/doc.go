// Package trusts has the commands for keys and policies: rye key and rye trust.
package trusts
