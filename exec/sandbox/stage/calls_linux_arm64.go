package stage

const sysSeccomp, sysExecveat, sysRenameat2, sysStatx = 277, 281, 276, 291
