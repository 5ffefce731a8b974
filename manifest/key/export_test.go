package key

// Work factors that don't make tests slow.
const cheap = 10

func (d Dir) Cheap() Dir {
	d.work = cheap
	return d
}

func (p Private) LockCheaply(passphrase string) ([]byte, error) { return p.lock(passphrase, cheap) }
