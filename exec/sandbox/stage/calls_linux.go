package stage

// Constants of Linux that package syscall lacks. Call numbers above 423 are the same on all processors.
const (
	sysOpenTree             = 428
	sysMoveMount            = 429
	sysCloseRange           = 436
	sysMountSetattr         = 442
	sysLandlockAddRule      = 445
	sysLandlockRestrictSelf = 446

	atEmptyPath       = 0x1000
	atRecursive       = 0x8000
	atSymlinkNofollow = 0x100
	atRemovedir       = 0x200
	atCwd             = -100
	oPath             = 0x200000
	closeRangeCloexec = 4

	openTreeClone      = 1
	moveMountFromEmpty = 4
	moveMountToEmpty   = 0x40
	renameNoReplace    = 1
	renameExchange     = 2
	statxAll           = 0xfff

	prCapAmbient         = 47
	prCapAmbientClearAll = 4
	prCapbsetRead        = 23
	prCapbsetDrop        = 24
	prSetChildSubreaper  = 36
	prSetNoNewPrivs      = 38
	capSetpcap           = 8
	capabilityVersion3   = 0x20080522

	mountAttrRdonly = 1
	mountAttrNosuid = 2
	mountAttrNoexec = 8
	seccompFilter   = 1 // SECCOMP_SET_MODE_FILTER
	sigSetmask      = 2
	rulePathBeneath = 1
	ruleNetPort     = 2
	tmpfsMagic      = 0x01021994
	wAll            = 0x40000000
	rusageChildren  = -1
)
