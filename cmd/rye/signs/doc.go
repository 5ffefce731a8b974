// Package signs has the commands for signatures: rye sign, rye verify and rye trust check.
package signs
