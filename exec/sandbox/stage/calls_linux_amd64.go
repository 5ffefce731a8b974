package stage

const sysSeccomp, sysExecveat = 317, 322
