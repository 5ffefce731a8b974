package stage

const sysSeccomp, sysExecveat = 277, 281
