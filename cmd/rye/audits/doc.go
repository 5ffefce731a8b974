// Package audits has the commands for the audit log and receipts.
package audits
