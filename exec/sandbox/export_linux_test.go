package sandbox

// Mounted makes the spare stage one that was started before something was mounted, and reports whether there is one.
func (m *Machine) Mounted() bool {
	m.reserve.mu.Lock()
	defer m.reserve.mu.Unlock()
	if m.reserve.next == nil {
		return false
	}
	m.reserve.next.mounts = append([]byte("another\n"), m.reserve.next.mounts...)
	return true
}
