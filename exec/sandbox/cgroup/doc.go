// Package cgroup bounds the memory and the number of processes of one run with a Linux control group, of version 1 or
// 2. The group is made below the group of this process, or beside it, and removed after the run. It needs root, or a
// delegated group.
package cgroup
