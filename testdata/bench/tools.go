package main

import "path/filepath"

// A place is where a tool works: its store (everything it keeps is below or beside it, as store.*), the tree
// that it takes in, and the directory that it writes out to.
type place struct{ store, src, out string }

// A tool is a program and how it does our work. A nil function: it can't.
type tool struct {
	name, bin string
	beside    []string // what it keeps beside its store
	makeOut   bool     // the directory it writes out to must exist

	create   func(place) []command // an empty store
	put      func(place) []command // src into the store
	verify   func(place) []command // everything in the store
	checkout func(place) []command // the tree last put, to out
	reput    func(place) []command // put of what the store has, where that is another command
	ready    func(place) []command // untimed, before a checkout
	version  []string
}

// tools returns everything we know to measure, rye first.
func tools(rye, floor, hello string) []tool {
	list := []tool{
		ryeTool(rye), gitTool(), ostreeTool(), resticTool(), borgTool(), casyncTool(), desyncTool(), bupTool(),
		nixTool(),
		{
			name: "b3sum", bin: "b3sum",
			put: func(p place) []command {
				return []command{cmd("sh", "-c", "find . -type f -print0 | xargs -0 b3sum").in(p.src).onto(p.store)}
			},
			verify: func(p place) []command { return []command{cmd("b3sum", "-c", "--quiet", p.store).in(p.src)} },
		},
		{
			name: "tar", bin: "tar", makeOut: true,
			put:      func(p place) []command { return []command{cmd("tar", "-C", p.src, "-cf", p.store, ".")} },
			checkout: func(p place) []command { return []command{cmd("tar", "-C", p.out, "-xf", p.store)} },
		},
		{
			name: "cp", bin: "cp",
			put:      func(place) []command { return nil },
			checkout: func(p place) []command { return []command{cmd("cp", "-r", p.src, p.out)} },
		},
		{name: "hello", bin: hello, version: []string{hello}},
	}
	if floor != "" {
		list = append(list, floorTool(floor))
	}
	return list
}

func ryeTool(bin string) tool {
	// The stat cache lies beside the store, so that a new store starts with an empty one.
	rye := func(p place, args ...string) []command {
		return []command{cmd(append([]string{bin, "--store", p.store, "store"},
			args...)...).with("XDG_CACHE_HOME=" + p.store + ".cache")}
	}
	return tool{
		name: "rye", bin: bin, beside: []string{".cache"},
		put:      func(p place) []command { return rye(p, "put", "--ref", "bench", p.src) },
		verify:   func(p place) []command { return rye(p, "fsck") },
		checkout: func(p place) []command { return rye(p, "checkout", "bench", p.out) },
		version:  []string{bin, "version"},
	}
}

func floorTool(bin string) tool {
	return tool{
		name: "floor", bin: bin,
		put: func(p place) []command {
			return []command{cmd(bin, "import-pack", "-src", p.src, "-store", p.store)}
		},
		reput:  func(p place) []command { return []command{cmd(bin, "reimport", "-src", p.src, "-store", p.store)} },
		verify: func(p place) []command { return []command{cmd(bin, "verify-pack", "-store", p.store)} },
		checkout: func(p place) []command {
			return []command{cmd(bin, "checkout-pack", "-store", p.store, "-dst", p.out)}
		},
	}
}

func gitTool() tool {
	git := func(p place, work string, args ...string) command {
		return cmd(append([]string{"git", "-c", "gc.auto=0", "-c", "maintenance.auto=0", "--git-dir", p.store,
			"--work-tree", work}, args...)...)
	}
	return tool{
		name: "git", bin: "git", makeOut: true,
		create: func(p place) []command {
			return []command{cmd("git", "init", "-q", "--bare", p.store),
				cmd("git", "--git-dir", p.store, "config", "core.bare", "false")}
		},
		put: func(p place) []command {
			return []command{git(p, p.src, "add", "-A"), git(p, p.src, "commit", "-q", "-m", "x", "--allow-empty")}
		},
		verify: func(p place) []command {
			return []command{cmd("git", "--git-dir", p.store, "fsck", "--full", "--no-dangling")}
		},
		// The index knows another work tree's files.
		ready:    func(p place) []command { return []command{cmd("rm", "-f", filepath.Join(p.store, "index"))} },
		checkout: func(p place) []command { return []command{git(p, p.out, "reset", "-q", "--hard")} },
		version:  []string{"git", "--version"},
	}
}

func ostreeTool() tool {
	return tool{
		name: "ostree", bin: "ostree",
		create: func(p place) []command {
			return []command{cmd("ostree", "--repo="+p.store, "init", "--mode=bare-user")}
		},
		put: func(p place) []command {
			return []command{cmd("ostree", "--repo="+p.store, "commit", "-b", "x", "--tree=dir="+p.src)}
		},
		verify: func(p place) []command { return []command{cmd("ostree", "--repo="+p.store, "fsck", "-q")} },
		checkout: func(p place) []command {
			return []command{cmd("ostree", "--repo="+p.store, "checkout", "-U", "-C", "--fsync=false", "x", p.out)}
		},
	}
}

func resticTool() tool {
	restic := func(p place, args ...string) []command {
		c := cmd(append([]string{"restic", "-q", "-r", p.store}, args...)...)
		return []command{c.with("RESTIC_CACHE_DIR=" + p.store + ".cache").in(p.src)}
	}
	return tool{
		name: "restic", bin: "restic", beside: []string{".cache"},
		create:   func(p place) []command { return restic(p, "init") },
		put:      func(p place) []command { return restic(p, "backup", ".") },
		verify:   func(p place) []command { return restic(p, "check", "--read-data") },
		checkout: func(p place) []command { return restic(p, "restore", "latest", "--target", p.out) },
		version:  []string{"restic", "version"},
	}
}

func borgTool() tool {
	borg := func(p place, args ...string) []command {
		return []command{cmd(append([]string{"borg"},
			args...)...).with("BORG_BASE_DIR=" + p.store + ".base").in(p.src)}
	}
	return tool{
		name: "borg", bin: "borg", beside: []string{".base"},
		create: func(p place) []command { return borg(p, "init", "-e", "none", p.store) },
		put:    func(p place) []command { return borg(p, "create", "-C", "lz4", p.store+"::{now:%s.%f}", ".") },
		verify: func(p place) []command { return borg(p, "check", "--verify-data", p.store) },
	}
}

func casyncTool() tool {
	casync := func(verb string, p place, path string) []command {
		return []command{cmd("casync", verb, "--without=privileged", "--store="+filepath.Join(p.store, "chunks"),
			filepath.Join(p.store, "x.caidx"), path)}
	}
	return tool{
		name: "casync", bin: "casync",
		create:   func(p place) []command { return []command{cmd("mkdir", p.store)} },
		put:      func(p place) []command { return casync("make", p, p.src) },
		checkout: func(p place) []command { return casync("extract", p, p.out) },
	}
}

func desyncTool() tool {
	desync := func(p place, args ...string) []command {
		return []command{cmd(append([]string{"desync"}, args...)...).in(p.store)}
	}
	return tool{
		name: "desync", bin: "desync", makeOut: true,
		create: func(p place) []command { return []command{cmd("mkdir", "-p", filepath.Join(p.store, "chunks"))} },
		put:    func(p place) []command { return desync(p, "tar", "-i", "-s", "chunks", "x.caidx", p.src) },
		verify: func(p place) []command { return desync(p, "verify", "-s", "chunks") },
		checkout: func(p place) []command {
			return desync(p, "untar", "-i", "-s", "chunks", "--no-same-owner", "x.caidx", p.out)
		},
	}
}

func bupTool() tool {
	bup := func(p place, args ...string) command {
		return cmd(append([]string{"bup"}, args...)...).with("BUP_DIR=" + p.store)
	}
	return tool{
		name: "bup", bin: "bup",
		create: func(p place) []command { return []command{bup(p, "init")} },
		put: func(p place) []command {
			return []command{bup(p, "index", p.src), bup(p, "save", "-q", "-n", "x", p.src)}
		},
	}
}

func nixTool() tool {
	nix := func(p place, args ...string) []command {
		return []command{cmd(append([]string{"nix-store", "--store", "local?root=" + p.store}, args...)...)}
	}
	return tool{
		name: "nix-store", bin: "nix-store",
		create: func(p place) []command { return append([]command{cmd("mkdir", p.store)}, nix(p, "--init")...) },
		put:    func(p place) []command { return nix(p, "--add", p.src) },
		verify: func(p place) []command { return nix(p, "--verify", "--check-contents") },
	}
}
