// Package cgroup limits the memory and the number of processes of one run with a Linux control group, of version 1 or
// 2. It creates the group below the group of this process, or next to it, and removes it after the run. It needs
// root, or a delegated group.
package cgroup
