package stage

const sysSeccomp, sysExecveat, sysRenameat2, sysStatx = 317, 322, 316, 332
